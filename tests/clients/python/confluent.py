"""confluent-kafka, which binds the newest librdkafka."""

import time

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType,
)

import scenarios

LARGEST = 12_000_000


class Refused(Exception):
    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


class Face:
    def __init__(self, bootstrap):
        self.base = {"bootstrap.servers": bootstrap, "client.id": "matrix"}
        self.admin = AdminClient(self.base)
        # One for each kind of sending, as an application keeps it.
        self.producers = {}

    def version(self):
        return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def code(self, error):
        error = error.error if isinstance(error, Refused) else error.args[0] if isinstance(error, KafkaException) else None
        return error.code() if error is not None else None

    def create(self, topic, partitions, settings={}):
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(20)

    def topics(self):
        return list(self.admin.list_topics(timeout=20).topics)

    def partitions(self, topic):
        return len(self.admin.list_topics(topic, timeout=20).topics[topic].partitions)

    def grow(self, topic, count):
        self.admin.create_partitions([NewPartitions(topic, count)])[topic].result(20)

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(20)

    def setting(self, topic, name):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return self.admin.describe_configs([resource])[resource].result(20)[name].value

    def _alter(self, topic, name, value, operation):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(20)

    def set(self, topic, name, value):
        self._alter(topic, name, value, AlterConfigOpType.SET)

    def unset(self, topic, name):
        self._alter(topic, name, None, AlterConfigOpType.DELETE)

    def produce(self, topic, records, codec=None, idempotent=False, transactional_id=None):
        settings = self.base | {
            "compression.type": codec or "none",
            "enable.idempotence": idempotent,
            "message.max.bytes": LARGEST,
            "linger.ms": 20,
            "delivery.timeout.ms": 30000,
        }
        if transactional_id:
            settings |= {"transactional.id": transactional_id, "enable.idempotence": True}
        kind = (codec, idempotent, transactional_id)
        producer = self.producers.setdefault(kind, None) or Producer(settings)
        self.producers[kind] = producer
        if transactional_id:
            producer.init_transactions(20)
            producer.begin_transaction()
        failures = []
        for r in records:
            producer.produce(topic, key=r.key, value=r.value, partition=r.partition, timestamp=r.timestamp,
                             headers=r.headers, on_delivery=lambda error, _: error and failures.append(error))
        left = producer.flush(40)
        if failures:
            raise Refused(failures[0])
        scenarios.check(left == 0, f"{left} records are not delivered")

    def consumer(self, group=None, instance=None, cooperative=False, protocol=None, assignor=None):
        settings = self.base | {
            "group.id": group or "nobody",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10000,
            "heartbeat.interval.ms": 500,
            "fetch.message.max.bytes": LARGEST,
            "partition.assignment.strategy": "cooperative-sticky" if cooperative else "range",
        }
        if protocol:
            # These are the broker's business now.
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                del settings[name]
            settings["group.protocol"] = protocol
        if assignor:
            settings["group.remote.assignor"] = assignor
        if instance:
            settings["group.instance.id"] = instance
        return Reader(Consumer(settings))

    def groups(self):
        return [g.group_id for g in self.admin.list_consumer_groups().result(20).valid]

    def group(self, group):
        found = self.admin.describe_consumer_groups([group])[group].result(20)
        members = [(m.client_id, m.group_instance_id, len(m.assignment.topic_partitions)) for m in found.members]
        return found.state.name, members

    def committed(self, group, topic):
        asked = [ConsumerGroupTopicPartitions(group)]
        found = self.admin.list_consumer_group_offsets(asked)[group].result(20)
        return {p.partition: p.offset for p in found.topic_partitions if p.topic == topic}

    def reset(self, group, topic, partition, offset):
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        self.admin.alter_consumer_group_offsets([wanted])[group].result(20)

    def delete_group(self, group):
        self.admin.delete_consumer_groups([group])[group].result(20)


class Reader:
    def __init__(self, consumer):
        self.consumer = consumer

    def assign(self, topic, partitions):
        self.consumer.assign([TopicPartition(topic, p, 0) for p in partitions])

    def subscribe(self, topic):
        self.consumer.subscribe([topic])

    def poll(self):
        got = []
        for m in self.consumer.consume(100, timeout=0.2):
            if m.error():
                raise Refused(m.error())
            got.append(scenarios.Record(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or []))
        return got

    def seek(self, topic, partition, offset):
        # Allowed only once the partition is being fetched.
        deadline = time.monotonic() + 10
        while True:
            try:
                return self.consumer.seek(TopicPartition(topic, partition, offset))
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                self.consumer.poll(0)
                time.sleep(0.05)

    def offset_at(self, topic, partition, timestamp):
        offset = self.consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=20)[0].offset
        return offset if offset >= 0 else None

    def ends(self, topic, partition):
        return self.consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)

    def pause(self, topic, partition):
        self.consumer.pause([TopicPartition(topic, partition)])

    def resume(self, topic, partition):
        self.consumer.resume([TopicPartition(topic, partition)])

    def commit(self):
        self.consumer.commit(asynchronous=False)

    def assignment(self):
        return {p.partition for p in self.consumer.assignment()}

    def holdings(self):
        return {(p.topic, p.partition) for p in self.consumer.assignment()}

    def close(self):
        self.consumer.close()


if __name__ == "__main__":
    scenarios.main(Face)
