"""kcat, which links the librdkafka of its distribution. It cannot create topics: topics are of one partition, made on first use."""

import json
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import processes
import scenarios
from scenarios import check

CODES = {
    "Broker: Unknown topic or partition": 3,
    "Broker: Message size too large": 10,
    "Broker: Transactional Id authorization failed": 53,
}
# More than the broker takes by its own settings.
TOO_LARGE = 11_000_000
PATIENCE_S = scenarios.PATIENCE_S


class Face:
    def __init__(self, bootstrap):
        self.kcat = ["kcat", "-b", bootstrap]

    def version(self):
        out, _ = processes.run(["kcat", "-V"])
        version, librdkafka = re.search(r"Version (\S+) .*librdkafka (\S+) ", out).groups()
        return f"{version} (librdkafka {librdkafka})"

    def run(self, *args, given="", may_fail=False):
        return processes.run(self.kcat + list(args), given.encode(), may_fail)

    def produce(self, topic, *args, given):
        self.run("-P", "-t", topic, *args, given=given)

    def read(self, topic, *args):
        out, _ = self.run("-C", "-t", topic, "-e", "-q", "-J", *args)
        return [json.loads(line) for line in out.splitlines()]


def pairs(read):
    return [(r["offset"], r["key"], r["payload"]) for r in read]


def records(client, topic):
    headers = ["-H", "n=1", "-H", "n=again", "-H", "empty="]
    started = int(time.time() * 1000)
    client.produce(topic, "-K", ":", "-Z", *headers, given="k:v\n:keyless\nk:\n")
    client.produce(topic, "-K", ":", *headers, given="k:\n")
    read = client.read(topic)
    check(pairs(read) == [(0, "k", "v"), (1, None, "keyless"), (2, "k", None), (3, "k", "")], f"{read}")
    for r in read:
        check(r["headers"] == ["n", "1", "n", "again", "empty", ""], f"headers {r['headers']}")
        check(r["tstype"] == "create" and started <= r["ts"] <= int(time.time() * 1000), f"time {r['ts']}")


def lines(count):
    return [f"k{n % 7}:{n}-" + "x" * (n % 500) for n in range(count)]


def round_trip(client, topic, *args):
    sent = lines(300)
    client.produce(topic, "-K", ":", *args, given="\n".join(sent))
    read = client.read(topic)
    check(pairs(read) == [(n, *line.split(":")) for n, line in enumerate(sent)], "what was read differs from what was sent")


def codec(name):
    return lambda client, topic: round_trip(client, topic, "-z", name)


def idempotent(client, topic):
    round_trip(client, topic, "-X", "enable.idempotence=true")


def zero_byte(client, topic):
    client.produce(topic, "-K", ":", "-H", "empty=", given=":\n")
    client.produce(topic, "-K", ":", "-Z", given="k:\n")
    read = client.read(topic)
    check(pairs(read) == [(0, "", ""), (1, "k", None)], f"{read}")


def null_record(client, topic):
    client.produce(topic, "-K", ":", "-Z", given=":\nk:v\n:\n")
    check(pairs(client.read(topic)) == [(0, None, None), (1, "k", "v"), (2, None, None)], "null or empty")


def large(client, topic):
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"0123456789abcdef" * (10 * 1024 * 1024 // 16))
        file.flush()
        client.run("-P", "-t", topic, "-X", "message.max.bytes=12000000", file.name)
        out, _ = client.run("-C", "-t", topic, "-e", "-q", "-X", "fetch.message.max.bytes=12000000", "-f", "%S %s")
        check(out == f"{10 * 1024 * 1024} " + "0123456789abcdef" * (10 * 1024 * 1024 // 16), f"{len(out)} bytes read")


def assign(client, topic):
    client.produce(topic, "-K", ":", given="\n".join(lines(20)))
    out, _ = client.run("-Q", "-t", f"{topic}:0:-2")
    check("offset 0" in out, out)
    out, _ = client.run("-Q", "-t", f"{topic}:0:-1")
    check("offset 20" in out, out)
    read = client.read(topic, "-p", "0", "-o", "10")
    check([(r["partition"], r["offset"]) for r in read] == [(0, n) for n in range(10, 20)], f"{pairs(read)}")


def seek_time(client, topic):
    for n in range(4):
        client.produce(topic, given=f"{n}\n")
        time.sleep(0.05)
    times = [r["ts"] for r in client.read(topic)]
    for timestamp, wanted in [(times[0] - 1000, 0), (times[2], 2), (times[2] + 1, 3), (times[3] + 1, -1)]:
        out, _ = client.run("-Q", "-t", f"{topic}:0:{timestamp}")
        check(f"offset {wanted}\n" in out, f"{out} instead of {wanted}")
    read = client.read(topic, "-o", f"s@{times[1] + 1}")
    check([r["offset"] for r in read] == [2, 3], f"{pairs(read)}")


class Member(processes.Running):
    def __init__(self, client, group, topics, *args):
        settings = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=10000", "-X", "heartbeat.interval.ms=500"]
        super().__init__(client.kcat + ["-G", group, "-u", "-f", "%t %o\n", *settings, *args, *topics])

    def held(self):
        """Topics that it holds, by what it says of rebalances."""
        held = set()
        for line in self.err:
            if "rebalanced" in line:
                named = set(re.findall(r"(\S+) \[0\]", line))
                held = held | named if "assign" in line else held - named
        return held

    def rebalances(self):
        return [line for line in self.err if "rebalanc" in line]


def share(client, topic, *args):
    """Two members share four topics, whichever way it takes; a third goes on where they committed."""
    topics = [f"{topic}-{n}" for n in range(4)]
    for name in topics:
        client.produce(name, given="before\n")
    first = Member(client, topic, topics, *args)
    first.until(lambda: len(first.held()) == 4 and len(first.out) == 4, "all of it")
    second = Member(client, topic, topics, *args)
    second.until(lambda: len(second.held()) == 2 and len(first.held()) == 2, "half of it")
    check(not first.held() & second.held(), "both hold the same")
    for name in topics:
        client.produce(name, given="one\ntwo\n")
    second.until(lambda: len(first.out) + len(second.out) == 12, "all records, once")
    check(len(second.out) == 4, "one member read all")
    second.stop()
    first.stop()
    for name in topics:
        client.produce(name, given="after\n")
    third = Member(client, topic, topics, *args)
    third.until(lambda: len(third.out) == 4, "what came after the commit")
    check(sorted(third.out) == [f"{name} 3" for name in topics], f"{third.out}")
    third.stop()
    return first


def group(client, topic):
    share(client, topic, "-X", "partition.assignment.strategy=roundrobin")


def group_cooperative(client, topic):
    first = share(client, topic, "-X", "partition.assignment.strategy=cooperative-sticky")
    gone = [line.count("[0]") for line in first.rebalances() if "revoke" in line]
    check(gone and gone[0] <= 2, f"gave up everything: {first.err}")


def group_static(client, topic):
    topics = [f"{topic}-{n}" for n in range(4)]
    for name in topics:
        client.produce(name, given="before\n")
    settings = ["-X", "partition.assignment.strategy=roundrobin", "-X"]
    first = Member(client, topic, topics, *settings, "group.instance.id=one")
    second = Member(client, topic, topics, *settings, "group.instance.id=two")
    second.until(lambda: len(second.held()) == 2 and len(first.held()) == 2, "half each")
    held, said = first.held(), second.rebalances()
    first.stop()
    time.sleep(1)
    first = Member(client, topic, topics, *settings, "group.instance.id=one")
    first.until(lambda: first.held() == held, "the same again")
    check(second.rebalances() == said, f"the other member saw a rebalance: {second.rebalances()}")
    first.stop()
    second.stop()


def code_in(said):
    return next((code for text, code in CODES.items() if text in said), said)


def error_unknown_topic(client, topic):
    return code_in(client.run("-C", "-t", topic, "-e", "-X", "allow.auto.create.topics=false", may_fail=True)[1])


def error_too_large(client, topic):
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(TOO_LARGE)
        return code_in(client.run("-P", "-t", topic, "-X", "message.max.bytes=20000000", file.name, may_fail=True)[1])


def error_transactional(client, topic):
    client.produce(topic, given="x\n")
    return code_in(client.run("-P", "-t", topic, "-X", f"transactional.id={topic}", given="x\n", may_fail=True)[1])


SCENARIOS = {f"codec_{name}": codec(name) for name in ("gzip", "snappy", "lz4", "zstd")} | {
    scenario.__name__: scenario
    for scenario in (
        records, zero_byte, null_record, large, idempotent, assign, seek_time, group, group_cooperative, group_static,
        error_unknown_topic, error_too_large, error_transactional,
    )
}

if __name__ == "__main__":
    scenarios.main(Face, SCENARIOS)
