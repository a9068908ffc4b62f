"""confluent-kafka in consumer groups (KIP-848). Usage: consumer_group.py BOOTSTRAP WHAT

share    two members share four partitions, read, commit and leave
resume   the next goes on where they committed; a member that is killed is replaced
member   what is killed: prints how many partitions it holds, until it ends
"""

import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP, WHAT = sys.argv[1:]
TOPIC = GROUP = "consumer-group"


def check(condition, text):
    if not condition:
        raise SystemExit(f"FAILED: {text}")


def produce(first, count):
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    for n in range(first, first + count):
        producer.produce(TOPIC, value=b"%d" % n, partition=n % 4)
    check(producer.flush(30) == 0, "undelivered")


def join():
    consumer = Consumer({
        "bootstrap.servers": BOOTSTRAP,
        "group.id": GROUP,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })
    consumer.subscribe([TOPIC])
    return consumer


def until(consumers, ready, got, what):
    """Polls all until `ready`; what they read goes to `got`."""
    deadline = time.monotonic() + 40
    while not ready():
        check(time.monotonic() < deadline, f"not in time: {what}")
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None:
                check(not message.error(), str(message.error()))
                got.append(int(message.value()))


def shares(consumers):
    return [len(consumer.assignment()) for consumer in consumers]


def share():
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(20)
    got = []
    members = [join()]
    until(members, lambda: shares(members) == [4], got, "all partitions")
    members.append(join())
    until(members, lambda: shares(members) == [2, 2], got, "two each")
    produce(0, 100)
    until(members, lambda: len(got) >= 100, got, "100 records")
    check(sorted(got) == list(range(100)), "each record once")
    for member in members:
        member.commit(asynchronous=False)
        member.close()


def resume():
    got = []
    third = join()
    produce(100, 8)
    until([third], lambda: len(got) >= 8, got, "what came after the commit")
    check(sorted(got) == list(range(100, 108)), f"went on elsewhere: {got}")
    child = subprocess.Popen([sys.executable, "-B", __file__, BOOTSTRAP, "member"], stdout=subprocess.PIPE, text=True)
    shared = []
    until([third], lambda: shares([third]) == [2], shared, "two partitions each")
    while child.stdout.readline().strip() != "2":
        check(child.poll() is None, "the member ended")
    child.kill()
    child.wait()
    until([third], lambda: shares([third]) == [4], shared, "the partitions of the one that was killed")
    third.close()


def member():
    consumer, held = join(), None
    while True:
        consumer.poll(0.1)
        now = len(consumer.assignment())
        if now != held:
            held = now
            print(held, flush=True)


{"share": share, "resume": resume, "member": member}[WHAT]()
print("OK", WHAT)
