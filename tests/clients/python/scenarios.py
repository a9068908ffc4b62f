"""The scenarios of `cargo xtask clients` for clients of Python, against a small face that each client's program fills in.

A program is called with BOOTSTRAP and the name of a scenario and prints one line of JSON: scenario, result (pass or fail), detail.
What a scenario has to show stands in ../matrix.json, which also says what a client cannot do.

The face, all of it blocking, errors of the client raised as they are:

* version() -> str
* code(error) -> Kafka's error code, or None when the error carries none
* create(topic, partitions, settings={}), topics() -> names, partitions(topic) -> count, grow(topic, count), delete(topic)
* setting(topic, name) -> value as text, set(topic, name, value), unset(topic, name)
* produce(topic, records, codec=None, idempotent=False, transactional_id=None): in order; a record's partition is obeyed
* consumer(group=None, instance=None, cooperative=False) -> Consumer; with protocol="consumer" (KIP-848) and assignor=None where the
  client has it, and then subscribe takes a regular expression that begins with ^ as well, and holdings() -> {(topic, partition)}
* groups() -> ids, group(id) -> (state, [(client id, instance id, count of partitions)]), None for what the client does not show
* committed(group, topic) -> {partition: offset}, reset(group, topic, partition, offset), delete_group(id)

Consumer: assign(topic, partitions), subscribe(topic), poll() -> records (waits about 0.2 s at most), seek(topic, partition, offset),
offset_at(topic, partition, timestamp) -> offset or None, ends(topic, partition) -> (first, next), pause(topic, partition),
resume(topic, partition), commit(), assignment() -> set of partitions, close(). Reading starts at the beginning where nothing is
committed, and nothing is committed by itself.
"""

import hashlib
import json
import os
import sys
import threading
import time
import traceback
from collections import namedtuple

Record = namedtuple("Record", "partition offset timestamp key value headers")

# Scenarios have to end by themselves: the runner's patience is longer.
PATIENCE_S = 40
NOW_MS = int(time.time() * 1000) - 3_600_000


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def record(key, value, partition=0, timestamp=NOW_MS, headers=()):
    return Record(partition, None, timestamp, key, value, list(headers))


def sample(count, partitions=1, size=40):
    """Keys of seven kinds and none, values null and empty among them, headers that repeat a name and one that is empty."""
    made = []
    for n in range(count):
        key = None if n % 10 == 9 else b"key-%d" % (n % 7)
        value = None if n % 10 == 7 else b"" if n % 10 == 8 else b"value-%d-" % n + b"x" * (n % size)
        headers = [("n", b"%d" % n), ("n", b"again"), ("empty", b"")]
        made.append(record(key, value, n % partitions, NOW_MS + n * 1000, headers))
    return made


def until(ready, what, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not ready():
        check(time.monotonic() < deadline, f"not within {patience_s} s: {what}")
        time.sleep(0.05)


def read(consumer, count, patience_s=PATIENCE_S):
    """Reads until there are `count` records, and a little more to see that there is nothing else."""
    got, deadline = [], time.monotonic() + patience_s
    while len(got) < count and time.monotonic() < deadline:
        got += consumer.poll()
    got += consumer.poll()
    check(len(got) == count, f"read {len(got)} records instead of {count}")
    return got


def same(sent, got):
    """`got` is what was sent to each partition, in order, from offset 0 on."""
    for partition in sorted({r.partition for r in sent}):
        wanted = [r for r in sent if r.partition == partition]
        seen = [r for r in got if r.partition == partition]
        offsets = [r.offset for r in seen]
        check(offsets == list(range(len(wanted))), f"partition {partition}: offsets {offsets[:20]}, {len(wanted)} records sent")
        for a, b in zip(wanted, seen):
            a = (a.timestamp, a.key, a.value, a.headers)
            b = (b.timestamp, b.key, b.value, [(name, value) for name, value in b.headers])
            check(a == b, f"sent {a!r:.200}, read {b!r:.200}")


def round_trip(client, topic, records, partitions=1, **how):
    client.create(topic, partitions)
    client.produce(topic, records, **how)
    consumer = client.consumer()
    consumer.assign(topic, range(partitions))
    same(records, read(consumer, len(records)))
    consumer.close()


class Member(threading.Thread):
    """A member of a group that polls in a thread of its own, so that several can be in a rebalance at once."""

    def __init__(self, client, topic, group, **how):
        super().__init__(daemon=True)
        self.consumer = client.consumer(group=group, **how)
        self.records, self.assigned, self.history, self.holdings = [], set(), [], set()
        self.failure, self.ending, self.wanted, self.topic = None, False, None, topic
        self.start()

    def run(self):
        try:
            self.consumer.subscribe(self.topic)
            while not self.ending:
                self.records += self.consumer.poll()
                assigned = set(self.consumer.assignment())
                if hasattr(self.consumer, "holdings"):
                    self.holdings = set(self.consumer.holdings())
                if assigned != self.assigned:
                    self.history.append(assigned)
                self.assigned = assigned
                if self.wanted == "commit":
                    self.consumer.commit()
                    self.wanted = None
            self.consumer.close()
        except Exception as error:
            traceback.print_exc()
            self.failure = error

    def commit(self):
        self.wanted = "commit"
        until(lambda: self.wanted is None or self.failure, "a commit")

    def close(self):
        self.ending = True
        self.join(PATIENCE_S)
        check(self.failure is None, f"member: {self.failure!r}")


def settled(members, counts, patience_s=PATIENCE_S):
    def ready():
        for member in members:
            if member.failure:
                raise member.failure
        shares = [m.assigned for m in members]
        return sorted(map(len, shares)) == sorted(counts) and len(set().union(*shares)) == sum(counts)

    try:
        until(ready, "", patience_s)
    except AssertionError:
        check(False, f"partitions {[sorted(m.assigned) for m in members]} instead of counts {counts}")


# --- records

def records(client, topic):
    round_trip(client, topic, sample(40))


def codec(name):
    def scenario(client, topic):
        round_trip(client, topic, sample(200, size=500), codec=name)

    return scenario


def zero_byte(client, topic):
    kinds = [(b"", b""), (None, b""), (b"", None)]
    round_trip(client, topic, [record(k, v, headers=[("", b"")]) for k, v in kinds])


def null_record(client, topic):
    round_trip(client, topic, [record(None, None), record(b"k", b"v"), record(None, None)])


def large(client, topic):
    block = hashlib.sha512(b"large").digest()
    value = block * (10 * 1024 * 1024 // len(block))
    round_trip(client, topic, [record(b"before", b"small"), record(b"large", value), record(b"after", b"small")])


def idempotent(client, topic):
    round_trip(client, topic, sample(600, partitions=3), partitions=3, idempotent=True)


# --- reading without a group

def assign(client, topic):
    client.create(topic, 3)
    client.produce(topic, sample(60, partitions=3))
    consumer = client.consumer()
    consumer.assign(topic, [1])
    check(consumer.ends(topic, 1) == (0, 20), f"ends {consumer.ends(topic, 1)}")
    consumer.seek(topic, 1, 10)
    got = read(consumer, 10)
    check([(r.partition, r.offset) for r in got] == [(1, n) for n in range(10, 20)], "another partition or offset")
    consumer.close()


def seek_time(client, topic):
    client.create(topic, 1)
    client.produce(topic, sample(40))
    consumer = client.consumer()
    consumer.assign(topic, [0])
    for timestamp, wanted in [(0, 0), (NOW_MS + 20_000, 20), (NOW_MS + 20_001, 21), (NOW_MS + 40_000, None)]:
        offset = consumer.offset_at(topic, 0, timestamp)
        check(offset == wanted, f"offset {offset} instead of {wanted}")
    consumer.seek(topic, 0, consumer.offset_at(topic, 0, NOW_MS + 20_001))
    check(read(consumer, 19)[0].offset == 21, "reading went on elsewhere")
    consumer.close()


def pause_resume(client, topic):
    client.create(topic, 2)
    consumer = client.consumer()
    consumer.assign(topic, [0, 1])
    consumer.seek(topic, 0, 0)
    consumer.seek(topic, 1, 0)
    consumer.poll()
    consumer.pause(topic, 0)
    client.produce(topic, sample(40, partitions=2))
    got = read(consumer, 20)
    check({r.partition for r in got} == {1}, "records of a partition that is paused")
    consumer.resume(topic, 0)
    got = read(consumer, 20)
    check([(r.partition, r.offset) for r in got] == [(0, n) for n in range(20)], "resumed elsewhere")
    consumer.close()


# --- groups

def share(client, topic, **how):
    client.create(topic, 4)
    first = Member(client, topic, topic, **how)
    settled([first], [4])
    second = Member(client, topic, topic, **how)
    settled([first, second], [2, 2])
    sent = sample(100, partitions=4)
    client.produce(topic, sent)
    until(lambda: len(first.records) + len(second.records) >= 100, "100 records")
    same(sent, first.records + second.records)
    check(first.records and second.records, "one member read all")
    for member in (first, second):
        member.commit()
        member.close()
    check(client.committed(topic, topic) == {p: 25 for p in range(4)}, f"committed {client.committed(topic, topic)}")
    third = Member(client, topic, topic, **how)
    settled([third], [4])
    client.produce(topic, [record(b"k", b"more", p) for p in range(4)])
    until(lambda: len(third.records) >= 4, "what came after the commit")
    check([r.offset for r in third.records] == [25] * 4, "the group went on elsewhere")
    third.close()
    return first


def group(client, topic):
    share(client, topic)


def group_cooperative(client, topic):
    first = share(client, topic, cooperative=True)
    check(all(len(assigned) >= 2 for assigned in first.history[:2]), f"gave up everything: {first.history}")


def group_static(client, topic):
    client.create(topic, 4)
    first = Member(client, topic, topic, instance="one")
    second = Member(client, topic, topic, instance="two")
    settled([first, second], [2, 2])
    held, before = set(first.assigned), len(second.history)
    first.close()
    time.sleep(1)
    _, members = client.group(topic)
    instances = [m[1] for m in members]
    check(instances == [None, None] or sorted(instances) == ["one", "two"], f"members while one is away: {members}")
    first = Member(client, topic, topic, instance="one")
    settled([first, second], [2, 2])
    check(first.assigned == held, f"{first.assigned} instead of {held}")
    check(len(second.history) == before, "the other member saw a rebalance")
    first.close()
    second.close()


def group_describe(client, topic):
    client.create(topic, 4)
    member = Member(client, topic, topic)
    settled([member], [4])
    until(lambda: client.group(topic)[0].lower() == "stable", "stable")
    check(topic in client.groups(), "the group is not listed")
    _, members = client.group(topic)
    check(len(members) == 1 and members[0][0] == "matrix" and members[0][2] in (4, None), f"members {members}")
    member.close()
    state, members = client.group(topic)
    check(state.lower() == "empty" and not members, f"{state} with {members}")


def read_and_leave(client, topic):
    client.create(topic, 1)
    client.produce(topic, sample(20))
    member = Member(client, topic, topic)
    until(lambda: len(member.records) == 20 or member.failure, "20 records")
    member.commit()
    return member


def group_reset(client, topic):
    read_and_leave(client, topic).close()
    check(client.committed(topic, topic) == {0: 20}, f"committed {client.committed(topic, topic)}")
    client.reset(topic, topic, 0, 5)
    check(client.committed(topic, topic) == {0: 5}, f"committed {client.committed(topic, topic)}")
    member = Member(client, topic, topic)
    until(lambda: len(member.records) >= 15 or member.failure, "15 records")
    check([r.offset for r in member.records] == list(range(5, 20)), "the group began elsewhere")
    member.close()


def group_delete(client, topic):
    member = read_and_leave(client, topic)
    code = refused(client, lambda: client.delete_group(topic))
    check(code == 68, f"a group with a member: {code} instead of NON_EMPTY_GROUP")
    member.close()
    client.delete_group(topic)
    check(topic not in client.groups(), "still listed")


# --- consumer groups (KIP-848)

CONSUMER = {"protocol": "consumer"}


def consumer_group(client, topic):
    first = share(client, topic, **CONSUMER)
    check(all(len(assigned) >= 2 for assigned in first.history[:2]), f"gave up everything: {first.history}")


def consumer_group_static(client, topic):
    client.create(topic, 4)
    first = Member(client, topic, topic, instance="one", **CONSUMER)
    second = Member(client, topic, topic, instance="two", **CONSUMER)
    settled([first, second], [2, 2])
    held, before = set(first.assigned), len(second.history)
    first.close()
    time.sleep(6)
    first = Member(client, topic, topic, instance="one", **CONSUMER)
    settled([first, second], [2, 2])
    check(first.assigned == held, f"{first.assigned} instead of {held}")
    check(len(second.history) == before, "the other member saw a rebalance")
    first.close()
    second.close()


def consumer_group_regex(client, topic):
    client.create(f"{topic}-1", 1)
    client.produce(f"{topic}-1", [record(b"k", b"first")])
    member = Member(client, f"^{topic}-.*", topic, **CONSUMER)
    until(lambda: len(member.records) == 1 or member.failure, "a record of the first topic")
    client.create(f"{topic}-2", 1)
    client.produce(f"{topic}-2", [record(b"k", b"second")])
    until(lambda: len(member.records) == 2 or member.failure, "a record of the topic that was made after the join")
    check([r.value for r in member.records] == [b"first", b"second"], f"{member.records}")
    member.close()


def consumer_group_range(client, topic):
    for n in (1, 2):
        client.create(f"{topic}-{n}", 1)
    members = [Member(client, f"^{topic}-.*", topic, assignor="range", **CONSUMER) for _ in range(2)]
    try:
        until(lambda: sorted(len(m.holdings) for m in members) == [0, 2] or any(m.failure for m in members), "")
        # Uniform would even it out by now.
        time.sleep(11)
    except AssertionError:
        pass
    held = sorted(len(m.holdings) for m in members)
    check(held == [0, 2], f"{held} instead of the first partitions of both topics with one member")
    for member in members:
        member.close()


def consumer_group_describe(client, topic):
    client.create(topic, 4)
    members = [Member(client, topic, topic, **CONSUMER) for _ in range(2)]
    settled(members, [2, 2])
    until(lambda: client.group(topic)[0].lower() == "stable", "stable")
    check(topic in client.groups(), "the group is not listed")
    _, found = client.group(topic)
    check(sorted((m[0], m[2]) for m in found) == [("matrix", 2)] * 2, f"members {found}")
    code = refused(client, lambda: client.delete_group(topic))
    check(code == 68, f"a group with members: {code} instead of NON_EMPTY_GROUP")
    for member in members:
        member.close()
    state, found = client.group(topic)
    check(state.lower() == "empty" and not found, f"{state} with {found}")
    client.delete_group(topic)
    check(topic not in client.groups(), "still listed")


# --- administration

def topics(client, topic):
    client.create(topic, 3)
    check(topic in client.topics(), "not listed")
    check(client.partitions(topic) == 3, f"{client.partitions(topic)} partitions")
    code = refused(client, lambda: client.create(topic, 3))
    check(code == 36, f"a second of the name: {code} instead of TOPIC_ALREADY_EXISTS")
    # As with Kafka, what is changed may be seen a little later.
    client.grow(topic, 5)
    until(lambda: client.partitions(topic) == 5, "5 partitions")
    client.delete(topic)
    until(lambda: topic not in client.topics(), "no longer listed")


def configs(client, topic):
    client.create(topic, 1, {"retention.ms": "7200000", "max.message.bytes": "2000"})
    check(client.setting(topic, "retention.ms") == "7200000", "as created")
    client.set(topic, "retention.ms", "3600000")
    check(client.setting(topic, "retention.ms") == "3600000", "as altered")
    client.unset(topic, "retention.ms")
    check(client.setting(topic, "retention.ms") == "604800000", "the default is back")


# --- errors: the detail is the code that the client has shown, which the runner compares

def refused(client, act):
    try:
        act()
    except Exception as error:
        code = client.code(error)
        check(code is not None, f"no error of the broker: {error!r}")
        return code
    raise AssertionError("not refused")


def error_unknown_topic(client, topic):
    return refused(client, lambda: client.delete(topic))


def error_too_large(client, topic):
    client.create(topic, 1, {"max.message.bytes": "1000"})
    return refused(client, lambda: client.produce(topic, [record(b"k", b"x" * 5000)]))


def error_invalid_config(client, topic):
    return refused(client, lambda: client.create(topic, 1, {"retention.ms": "banana"}))


def error_transactional(client, topic):
    client.create(topic, 1)
    return refused(client, lambda: client.produce(topic, [record(b"k", b"v")], transactional_id=topic))


def error_disk_full(client, topic):
    """The runner has filled the smallest of devices, with a topic `filler`."""
    client.create(topic, 1)
    one = [record(b"k", b"v")]
    started = time.monotonic()
    code = refused(client, lambda: client.produce(topic, one))
    check(time.monotonic() - started < 10, "an application hears of it late")
    consumer = client.consumer()
    consumer.assign("filler", [0])
    until(consumer.poll, "a record that is read while the device is full")
    consumer.close()
    client.delete("filler")

    def is_taken():
        try:
            client.produce(topic, one)
            return True
        except Exception as error:
            check(client.code(error) == code, f"{error!r}")
            return False

    until(is_taken, "room after a deletion")
    return code


SCENARIOS = {f"codec_{name}": codec(name) for name in ("gzip", "snappy", "lz4", "zstd")} | {
    scenario.__name__: scenario
    for scenario in (
        records, zero_byte, null_record, large, idempotent, assign, seek_time, pause_resume, group, group_cooperative, group_static,
        group_describe, group_reset, group_delete, consumer_group, consumer_group_static, consumer_group_regex,
        consumer_group_range, consumer_group_describe, topics, configs, error_unknown_topic, error_too_large,
        error_invalid_config, error_transactional, error_disk_full,
    )
}


def main(make_client, scenarios=SCENARIOS):
    """Runs one scenario for the program whose face `make_client(bootstrap)` gives."""
    bootstrap, name = sys.argv[1:]
    try:
        client = make_client(bootstrap)
        if name == "version":
            detail = client.version()
        else:
            detail = scenarios[name](client, f"{name}-{time.time_ns() // 1_000_000}")
        result = "pass"
    except BaseException as error:
        traceback.print_exc()
        result, detail = "fail", f"{type(error).__name__}: {error}"
    print(json.dumps({"scenario": name, "result": result, "detail": "" if detail is None else str(detail)}), flush=True)
    # Threads of a client may be stuck in what has failed.
    sys.stderr.flush()
    os._exit(0 if result == "pass" else 1)
