"""kafka-python."""

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

import scenarios

LARGEST = 12_000_000


def raise_for(outcome):
    """Some administrative calls give the error, its name or 'OK' instead of raising."""
    if isinstance(outcome, dict):
        for each in outcome.values():
            raise_for(each)
        return
    if isinstance(outcome, str):
        if outcome in ("OK", "NoError"):
            return
        outcome = getattr(kafka.errors, outcome)
    if outcome in (None, kafka.errors.NoError):
        return
    raise outcome() if isinstance(outcome, type) else outcome


class Face:
    def __init__(self, bootstrap):
        self.base = {"bootstrap_servers": bootstrap, "client_id": "matrix"}
        self.opened = None

    @property
    def admin(self):
        self.opened = self.opened or KafkaAdminClient(**self.base)
        return self.opened

    def version(self):
        return kafka.__version__

    def code(self, error):
        code = getattr(error, "errno", None)
        return code if isinstance(code, int) and code > 0 else None

    def create(self, topic, partitions, settings={}):
        self.admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": settings}})

    def topics(self):
        return self.admin.list_topics()

    def partitions(self, topic):
        return len(self.admin.describe_topics([topic])[0]["partitions"])

    def grow(self, topic, count):
        self.admin.create_partitions({topic: count})

    def delete(self, topic):
        self.admin.delete_topics([topic])

    def setting(self, topic, name):
        found = self.admin.describe_configs([ConfigResource("topic", topic)], config_filter="all")
        return found["topic"][topic][name]["value"]

    def set(self, topic, name, value):
        raise_for(self.admin.alter_configs([ConfigResource("topic", topic, {name: value})]))

    def unset(self, topic, name):
        raise_for(self.admin.reset_configs([ConfigResource("topic", topic, [name])]))

    def produce(self, topic, records, codec=None, idempotent=False, transactional_id=None):
        settings = self.base | {
            "acks": "all",
            "compression_type": codec,
            "enable_idempotence": idempotent,
            "linger_ms": 20,
            "max_request_size": LARGEST,
            "allow_auto_create_topics": False,
        }
        if transactional_id:
            settings |= {"transactional_id": transactional_id, "enable_idempotence": True}
        producer = KafkaProducer(**settings)
        try:
            if transactional_id:
                producer.init_transactions()
            futures = [
                producer.send(topic, key=r.key, value=r.value, partition=r.partition, timestamp_ms=r.timestamp,
                              headers=r.headers)
                for r in records
            ]
            producer.flush(40)
            for future in futures:
                future.get(10)
        finally:
            producer.close(timeout=5)

    def consumer(self, group=None, instance=None, cooperative=False):
        return Reader(KafkaConsumer(
            **self.base,
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10000,
            heartbeat_interval_ms=500,
            max_partition_fetch_bytes=LARGEST,
            allow_auto_create_topics=False,
            partition_assignment_strategy=[CooperativeStickyAssignor if cooperative else RangePartitionAssignor],
        ))

    def groups(self):
        return [g["group_id"] for g in self.admin.list_groups()]

    def group(self, group):
        found = self.admin.describe_groups([group])[group]
        members = []
        for m in found["members"]:
            assignment = m["member_assignment"]
            owned = assignment["assigned_partitions"] if assignment else []
            members.append((m["client_id"], m["group_instance_id"], sum(len(t["partitions"]) for t in owned)))
        return found["group_state"], members

    def committed(self, group, topic):
        found = self.admin.list_group_offsets(group)[group]
        return {p.partition: o.offset for p, o in found.items() if p.topic == topic}

    def reset(self, group, topic, partition, offset):
        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        raise_for(self.admin.alter_group_offsets(group, offsets))

    def delete_group(self, group):
        raise_for(self.admin.delete_groups([group]))


class Reader:
    def __init__(self, consumer):
        self.consumer = consumer

    def assign(self, topic, partitions):
        self.consumer.assign([TopicPartition(topic, p) for p in partitions])

    def subscribe(self, topic):
        self.consumer.subscribe([topic])

    def poll(self):
        return [
            scenarios.Record(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
            for batch in self.consumer.poll(timeout_ms=200).values()
            for r in batch
        ]

    def seek(self, topic, partition, offset):
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def offset_at(self, topic, partition, timestamp):
        place = TopicPartition(topic, partition)
        found = self.consumer.offsets_for_times({place: timestamp})[place]
        return found and found.offset

    def ends(self, topic, partition):
        place = TopicPartition(topic, partition)
        return self.consumer.beginning_offsets([place])[place], self.consumer.end_offsets([place])[place]

    def pause(self, topic, partition):
        self.consumer.pause(TopicPartition(topic, partition))

    def resume(self, topic, partition):
        self.consumer.resume(TopicPartition(topic, partition))

    def commit(self):
        self.consumer.commit()

    def assignment(self):
        return {p.partition for p in self.consumer.assignment()}

    def close(self):
        self.consumer.close()


if __name__ == "__main__":
    scenarios.main(Face)
