"""confluent-kafka (the newest librdkafka): idempotent, all codecs, a group that resumes. Usage: confluent.py BOOTSTRAP"""

import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import roundtrip

BOOTSTRAP = sys.argv[1]


def create_topic(name, partitions):
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(20)


def produce(topic, codec, batch):
    failures = []
    producer = Producer({
        "bootstrap.servers": BOOTSTRAP,
        "enable.idempotence": True,
        "compression.type": codec,
        "linger.ms": 20,
        "delivery.timeout.ms": 20000,
    })
    for key, value, headers in batch:
        producer.produce(topic, key=key, value=value, headers=headers,
                         on_delivery=lambda error, _: error and failures.append(error))
    left = producer.flush(30)
    roundtrip.check(left == 0 and not failures, f"{codec}: {left} undelivered, {failures[:1]}")


def consume(topic, group, count):
    consumer = Consumer({
        "bootstrap.servers": BOOTSTRAP,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    })
    consumer.subscribe([topic])
    got = []
    deadline = time.monotonic() + 40
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            roundtrip.check(message.error().code() == KafkaError._PARTITION_EOF, str(message.error()))
            continue
        got.append((message.partition(), message.offset(), message.key(), message.value(), message.headers()))
        consumer.commit(message, asynchronous=len(got) % 50 != 0)
    if got:
        ends = {}
        for partition, offset, *_ in got:
            ends[partition] = offset + 1
        from confluent_kafka import TopicPartition
        consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in ends.items()], asynchronous=False)
    consumer.close()
    return got


if __name__ == "__main__":
    name = f"confluent-{int(time.time() * 1000)}"
    roundtrip.run(sys.modules[__name__], name, name + "-group")
