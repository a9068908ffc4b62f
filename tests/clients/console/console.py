"""The console tools of Kafka's Java distribution. BARELOG_JARS names the folder of their archives. Timestamps cannot be given."""

import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import processes
import scenarios
from scenarios import check

CODES = {
    "UnknownTopicOrPartitionException": 3,
    "RecordTooLargeException": 10,
    "already exists": 36,
    "InvalidConfigurationException": 40,
    "PolicyViolationException": 44,
    "TransactionalIdAuthorizationException": 53,
    "GroupNotEmptyException": 68,
}
# Small and quick to start, and large enough for a message of 10 MiB.
JAVA = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
GROUPS, TOPICS, CONFIGS = "consumer.group.ConsumerGroupCommand", "TopicCommand", "ConfigCommand"
PRINTED = ["partition", "offset", "timestamp", "key", "headers"]


class Face:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap

    def command(self, tool, *args):
        jars = os.path.join(os.environ["BARELOG_JARS"], "*")
        return [*JAVA, "-cp", jars, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", self.bootstrap, *args]

    def run(self, tool, *args, given="", may_fail=False):
        return processes.run(self.command(tool, *args), given.encode(), may_fail)

    def version(self):
        return self.run(TOPICS, "--version")[0].split()[0]

    def create(self, topic, partitions, *settings):
        configs = [part for setting in settings for part in ("--config", setting)]
        self.run(TOPICS, "--create", "--topic", topic, "--partitions", str(partitions), *configs)

    def produce(self, topic, lines, *args):
        self.run("ConsoleProducer", "--topic", topic, *reader(), *args, given="".join(line + "\n" for line in lines))

    def reading(self, topic, *args):
        shown = [part for name in PRINTED for part in ("--formatter-property", f"print.{name}=true")]
        shown += ["--formatter-property", "null.literal=NULL"]
        return self.command("consumer.ConsoleConsumer", "--topic", topic, *shown, *args)

    def read(self, topic, count, *args):
        """[(partition, offset, timestamp, headers, key, value)], of `count` records."""
        out, _ = processes.run(self.reading(topic, "--max-messages", str(count), "--timeout-ms", "30000", *args))
        return [parsed(line) for line in out.splitlines()]

    def group(self, group, *args):
        return self.run(GROUPS, "--describe", "--group", group, *args)[0]

    def offsets(self, topic, when):
        out, _ = self.run("GetOffsetShell", "--topic", topic, "--time", str(when))
        return {int(line.split(":")[1]): int(line.split(":")[2]) for line in out.splitlines()}


def reader():
    return [part for name in ("parse.key=true", "parse.headers=true", "null.marker=NULL") for part in ("--reader-property", name)]


def parsed(line):
    time_, partition, offset, headers, key, value = line.split("\t")
    return int(partition[len("Partition:"):]), int(offset[len("Offset:"):]), int(time_[len("CreateTime:"):]), headers, key, value


def contents(read):
    return [(offset, headers, key, value) for _, offset, _, headers, key, value in read]


def code_in(said):
    return next((code for text, code in CODES.items() if text in "".join(said)), said[1][-300:])


def round_trip(client, topic, lines, *args):
    client.create(topic, 1)
    client.produce(topic, lines, *args)
    read = client.read(topic, len(lines), "--partition", "0", "--offset", "earliest",
                       "--command-property", "max.partition.fetch.bytes=12000000")
    wanted = [(n, *line.replace("NULL\t", "NO_HEADERS\t", 1).split("\t")) if line.startswith("NULL") else (n, *line.split("\t"))
              for n, line in enumerate(lines)]
    check(contents(read) == wanted, f"sent {wanted!r:.300}, read {contents(read)!r:.300}")
    return read


def records(client, topic):
    started = int(time.time() * 1000)
    lines = ["n:1,n:again,empty:\tk\tvalue", "n:2\tNULL\tkeyless", "n:3\tk\tNULL", "n:4\tk\t", "NULL\tk\theadless"]
    read = round_trip(client, topic, lines)
    check(all(started <= r[2] <= int(time.time() * 1000) for r in read), "timestamps")


def lines(count):
    return [f"n:{n}\tk{n % 29}\tvalue-{n}-" + "x" * (n % 500) for n in range(count)]


def codec(name):
    def scenario(client, topic):
        round_trip(client, topic, lines(200), "--compression-codec", name)

    return scenario


def zero_byte(client, topic):
    round_trip(client, topic, ["empty:\t\t", "empty:\tNULL\t", "empty:\t\tNULL"])


def null_record(client, topic):
    round_trip(client, topic, ["NULL\tNULL\tNULL", "NULL\tk\tv", "NULL\tNULL\tNULL"])


def large(client, topic):
    round_trip(client, topic, ["NULL\tk\tsmall", "NULL\tlarge\t" + "0123456789abcdef" * (10 * 1024 * 1024 // 16)],
               "--command-property", "max.request.size=12000000")


def idempotent(client, topic):
    client.create(topic, 3)
    sent = lines(300)
    client.produce(topic, sent, "--command-property", "enable.idempotence=true")
    read = client.read(topic, 300, "--from-beginning")
    check(sorted(f"{r[3]}\t{r[4]}\t{r[5]}" for r in read) == sorted(sent), "all, once")
    for partition in range(3):
        mine = [r for r in read if r[0] == partition]
        check([r[1] for r in mine] == list(range(len(mine))), f"offsets of partition {partition}")
        numbers = [int(r[3][2:]) for r in mine]
        check(numbers == sorted(numbers), f"order of partition {partition}")


def assign(client, topic):
    client.create(topic, 3)
    client.produce(topic, lines(200))
    first, following = client.offsets(topic, "earliest"), client.offsets(topic, "latest")
    check(first == {0: 0, 1: 0, 2: 0} and sum(following.values()) == 200, f"{first} {following}")
    read = client.read(topic, following[1] - 10, "--partition", "1", "--offset", "10")
    check([r[:2] for r in read] == [(1, n) for n in range(10, following[1])], "another partition or offset")


def seek_time(client, topic):
    client.create(topic, 1)
    for n in range(3):
        client.produce(topic, [f"n:{n}\tk\tv"])
    times = [r[2] for r in client.read(topic, 3, "--partition", "0", "--offset", "earliest")]
    for timestamp, wanted in [(1, {0: 0}), (times[1], {0: 1}), (times[1] + 1, {0: 2}), (times[2] + 1, {})]:
        found = client.offsets(topic, timestamp)
        check(found == wanted, f"{found} instead of {wanted}")
    after = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((times[1] + 1) // 1000)) + f".{(times[1] + 1) % 1000:03}Z"
    client.run(GROUPS, "--reset-offsets", "--group", topic, "--topic", topic, "--to-datetime", after, "--execute")
    check(client.read(topic, 1, "--group", topic)[0][1] == 2, "reading went on elsewhere")


CONSUMER = "group.protocol=consumer"


class Member(processes.Running):
    def __init__(self, client, topic, *properties):
        settings = ["auto.offset.reset=earliest", *properties]
        if CONSUMER not in properties:
            # By the consumer protocol these are the broker's business.
            settings += ["session.timeout.ms=10000", "heartbeat.interval.ms=500"]
        given = [part for setting in settings for part in ("--command-property", setting)]
        super().__init__(client.reading(topic, "--group", topic, *given))

    def records(self):
        return [parsed(line) for line in self.out if line.startswith("CreateTime")]


def shares(client, topic):
    """Partitions of each member, by consumer id, as the group's description shows them."""
    found = {}
    for line in client.group(topic).splitlines():
        fields = line.split()
        if len(fields) >= 9 and fields[0] == topic and fields[6] != "-":
            found.setdefault(fields[6], set()).add(int(fields[2]))
    return found


def settled(client, topic, members, each):
    scenarios.until(lambda: all(m.child.poll() is None for m in members) and
                    sorted(map(len, shares(client, topic).values())) == [each] * len(members), f"{each} partitions each")
    return shares(client, topic)


def group(client, topic, *properties):
    client.create(topic, 4)
    client.produce(topic, lines(40))
    first = Member(client, topic, *properties)
    first.until(lambda: len(first.records()) == 40, "40 records")
    second = Member(client, topic, *properties)
    settled(client, topic, [first, second], 2)
    client.produce(topic, lines(200)[40:])
    second.until(lambda: len(first.records()) + len(second.records()) >= 200, "200 records")
    check(len(second.records()) > 0 and len(first.records()) > 40, "one member read all")
    places = [r[:2] for r in first.records() + second.records()]
    check(len(set(places)) == len(places) == 200, "records read twice")
    second.stop()
    first.stop()
    client.produce(topic, ["n:200\tk\tmore"])
    read = client.read(topic, 1, "--group", topic)
    check(read[0][3] == "n:200", f"the group went on at {read}")


def group_static(client, topic, *properties):
    client.create(topic, 4)
    client.produce(topic, lines(40))
    first = Member(client, topic, "group.instance.id=one", *properties)
    second = Member(client, topic, "group.instance.id=two", *properties)
    before = settled(client, topic, [first, second], 2)
    first.stop()
    time.sleep(1)
    check(len(shares(client, topic)) == 2, "the member that is away has lost its partitions")
    first = Member(client, topic, "group.instance.id=one", *properties)
    scenarios.until(lambda: shares(client, topic).keys() - before.keys(), "a new member id")
    after = settled(client, topic, [first, second], 2)
    check(len(after.keys() & before.keys()) == 1, "the other member saw a rebalance")
    check(sorted(map(sorted, after.values())) == sorted(map(sorted, before.values())), f"{after} instead of {before}")
    first.stop()
    second.stop()


def group_describe(client, topic):
    client.create(topic, 4)
    client.produce(topic, lines(10))
    member = Member(client, topic, "client.id=matrix")
    settled(client, topic, [member], 4)
    check(topic in client.run(GROUPS, "--list")[0].split(), "not listed")
    check(re.search(rf"{topic}\s.*\sStable\s+1\s", client.group(topic, "--state") + "\n"), "state")
    check(re.search(r"matrix\s+4\s", client.group(topic, "--members")), "members")
    member.stop()
    check(re.search(rf"{topic}\s.*\sEmpty\s+0\s", client.group(topic, "--state") + "\n"), "state when empty")


def committed(client, topic):
    rows = [line.split() for line in client.group(topic).splitlines()]
    return {int(row[2]): int(row[3]) for row in rows if len(row) >= 9 and row[0] == topic}


def group_reset(client, topic):
    client.create(topic, 1)
    client.produce(topic, lines(20))
    client.read(topic, 20, "--group", topic, "--from-beginning")
    check(committed(client, topic) == {0: 20}, f"committed {committed(client, topic)}")
    client.run(GROUPS, "--reset-offsets", "--group", topic, "--topic", topic, "--to-offset", "5", "--execute")
    check(committed(client, topic) == {0: 5}, f"set back to {committed(client, topic)}")
    check(client.read(topic, 15, "--group", topic)[0][1] == 5, "the group began elsewhere")


def group_delete(client, topic):
    client.create(topic, 1)
    client.produce(topic, lines(20))
    member = Member(client, topic)
    settled(client, topic, [member], 1)
    code = code_in(client.run(GROUPS, "--delete", "--group", topic, may_fail=True))
    check(code == 68, f"a group with a member: {code}")
    member.stop()
    client.run(GROUPS, "--delete", "--group", topic)
    check(topic not in client.run(GROUPS, "--list")[0].split(), "still listed")


def consumer_group(client, topic):
    group(client, topic, CONSUMER)


def consumer_group_static(client, topic):
    group_static(client, topic, CONSUMER)


def consumer_group_describe(client, topic):
    client.create(topic, 4)
    client.produce(topic, lines(10))
    members = [Member(client, topic, "client.id=matrix", CONSUMER) for _ in range(2)]
    settled(client, topic, members, 2)
    listed = [line.split() for line in client.run(GROUPS, "--list", "--type", "consumer")[0].splitlines()]
    check([topic] in [line[:1] for line in listed], f"listed {listed}")
    scenarios.until(lambda: re.search(rf"{topic}\s.*\sStable\s+2\s", client.group(topic, "--state") + "\n"), "stable")
    shown = client.group(topic, "--members", "--verbose")
    check(len(re.findall(r"matrix\s+2\s", shown)) == 2, f"members {shown}")
    for member in members:
        member.stop()
    check(re.search(rf"{topic}\s.*\sEmpty\s+0\s", client.group(topic, "--state") + "\n"), "state when empty")
    client.run(GROUPS, "--delete", "--group", topic)
    check(topic not in client.run(GROUPS, "--list")[0].split(), "still listed")


def topics(client, topic):
    client.create(topic, 3)
    check(topic in client.run(TOPICS, "--list")[0].split(), "not listed")
    check("PartitionCount: 3" in client.run(TOPICS, "--describe", "--topic", topic)[0], "partitions")
    code = code_in(client.run(TOPICS, "--create", "--topic", topic, may_fail=True))
    check(code == 36, f"a second of the name: {code}")
    client.run(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    scenarios.until(lambda: "PartitionCount: 5" in client.run(TOPICS, "--describe", "--topic", topic)[0], "5 partitions")
    client.run(TOPICS, "--delete", "--topic", topic)
    scenarios.until(lambda: topic not in client.run(TOPICS, "--list")[0].split(), "no longer listed")


def configs(client, topic):
    def shown():
        out, _ = client.run(CONFIGS, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
        return re.search(r"\sretention\.ms=(\d+) ", out)[1]

    def alter(*args):
        client.run(CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", topic, *args)

    client.create(topic, 1, "retention.ms=7200000")
    check(shown() == "7200000", "as created")
    alter("--add-config", "retention.ms=3600000")
    check(shown() == "3600000", "as altered")
    alter("--delete-config", "retention.ms")
    check(shown() == "604800000", "the default is back")


def refused_setting(client, topic, setting):
    args = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", setting]
    return code_in(client.run(CONFIGS, *args, may_fail=True))


def error_unknown_topic(client, topic):
    return refused_setting(client, topic, "retention.ms=5")


def error_too_large(client, topic):
    client.create(topic, 1, "max.message.bytes=1000")
    return code_in(client.run("ConsoleProducer", "--topic", topic, "--sync", given="x" * 5000, may_fail=True))


def error_invalid_config(client, topic):
    client.create(topic, 1)
    return refused_setting(client, topic, "retention.ms=banana")


def error_transactional(client, topic):
    client.create(topic, 1)
    args = ["--num-records", "1", "--record-size", "10", "--throughput", "-1", "--transactional-id", topic]
    return code_in(client.run("ProducerPerformance", "--topic", topic, *args, may_fail=True))


def error_disk_full(client, topic):
    client.create(topic, 1)

    def produce():
        return client.run("ConsoleProducer", "--topic", topic, "--sync", given="x", may_fail=True)

    code = code_in(produce())
    client.run(TOPICS, "--delete", "--topic", "filler")
    scenarios.until(lambda: "Exception" not in produce()[1], "room after a deletion")
    return code


SCENARIOS = {f"codec_{name}": codec(name) for name in ("gzip", "snappy", "lz4", "zstd")} | {
    scenario.__name__: scenario
    for scenario in (
        records, zero_byte, null_record, large, idempotent, assign, seek_time, group, group_static, group_describe,
        group_reset, group_delete, consumer_group, consumer_group_static,
        consumer_group_describe, topics, configs, error_unknown_topic, error_too_large, error_invalid_config,
        error_transactional, error_disk_full,
    )
}

if __name__ == "__main__":
    scenarios.main(Face, SCENARIOS)
