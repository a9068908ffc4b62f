"""kafka-python: all codecs, a group that resumes. Usage: kafka_python.py BOOTSTRAP"""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

import roundtrip

BOOTSTRAP = sys.argv[1]


def create_topic(name, partitions):
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(name, partitions, 1)])
    admin.close()


def produce(topic, codec, batch):
    producer = KafkaProducer(
        bootstrap_servers=BOOTSTRAP,
        acks="all",
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    futures = [producer.send(topic, key=key, value=value, headers=headers) for key, value, headers in batch]
    producer.flush(30)
    for future in futures:
        future.get(10)
    producer.close()


def consume(topic, group, count):
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=BOOTSTRAP,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=50,
    )
    got = []
    deadline = time.monotonic() + 40
    while len(got) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=1000, max_records=min(50, count - len(got))).values():
            for r in batch:
                got.append((r.partition, r.offset, r.key, r.value, r.headers))
        consumer.commit()
    consumer.close()
    return got


if __name__ == "__main__":
    name = f"kafka-python-{int(time.time() * 1000)}"
    roundtrip.run(sys.modules[__name__], name, name + "-group")
