"""Clients that are programs of the command line: run to the end, or run in the background and watched."""

import ctypes
import os
import signal
import subprocess
import threading
import time

import scenarios

PATIENCE_S = scenarios.PATIENCE_S
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Whatever happens to the scenario, what it has started does not stay behind."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command, given=b"", may_fail=False):
    """Standard output and standard error, as text; a failure is an error unless it is what is wanted."""
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE_S * 2, preexec_fn=end_with_parent)
    out, err = done.stdout.decode(), done.stderr.decode()
    os.write(2, f"{command}: {done.returncode}\n{out[:2000]}\n{err[:4000]}\n".encode())
    scenarios.check(may_fail or done.returncode == 0, f"{' '.join(command)[-200:]}: {err[-300:]}")
    return out, err


class Running:
    """A program in the background, with the lines that it has printed so far."""

    def __init__(self, command):
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=end_with_parent)
        self.out, self.err = [], []
        for stream, lines in ((self.child.stdout, self.out), (self.child.stderr, self.err)):
            threading.Thread(target=self.follow, args=(stream, lines), daemon=True).start()

    def follow(self, stream, lines):
        for line in stream:
            lines.append(line.decode().rstrip("\n"))
            os.write(2, line)

    def until(self, ready, what):
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            scenarios.check(self.child.poll() is None, f"ended before: {what}: {self.err[-3:]}")
            scenarios.check(time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}: {self.err[-3:]}")
            time.sleep(0.05)

    def stop(self):
        """As an operator stops it, so that it commits and leaves. SIGINT would not do: what runs in the background may ignore it."""
        self.child.terminate()
        self.child.wait(PATIENCE_S)

    def kill(self):
        self.child.kill()
        self.child.wait()
