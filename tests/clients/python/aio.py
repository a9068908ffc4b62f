"""aiokafka. Its event loop runs in a thread of its own, so that members of a group heartbeat while the scenario waits."""

import asyncio
import threading

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import for_code
from aiokafka.structs import OffsetAndMetadata

import scenarios

LARGEST = 12_000_000
LOOP = asyncio.new_event_loop()


def run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(60)


async def called(act, *args):
    return act(*args)


def raise_for(code):
    if code:
        raise for_code(code)()


class Face:
    def __init__(self, bootstrap):
        threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self.base = {"bootstrap_servers": bootstrap, "client_id": "matrix"}
        self.opened = None

    @property
    def admin(self):
        if self.opened is None:
            self.opened = run(called(lambda: AIOKafkaAdminClient(**self.base)))
            run(self.opened.start())
        return self.opened

    def version(self):
        return aiokafka.__version__

    def code(self, error):
        code = getattr(error, "errno", None)
        return code if isinstance(code, int) and code > 0 else None

    def create(self, topic, partitions, settings={}):
        response = run(self.admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)]))
        for _, code, *_ in response.topic_errors:
            raise_for(code)

    def topics(self):
        return run(self.admin.list_topics())

    def partitions(self, topic):
        return len(run(self.admin.describe_topics([topic]))[0]["partitions"])

    def grow(self, topic, count):
        run(self.admin.create_partitions({topic: NewPartitions(count)}))

    def delete(self, topic):
        for _, code in run(self.admin.delete_topics([topic])).topic_error_codes:
            raise_for(code)

    def setting(self, topic, name):
        response, = run(self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        (code, _, _, _, entries), = response.resources
        raise_for(code)
        return {entry[0]: entry[1] for entry in entries}[name]

    def _alter(self, topic, settings):
        response, *_ = run(self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)]))
        for code, *_ in response.resources:
            raise_for(code)

    # Only AlterConfigs exists, which replaces all settings of the topic.
    def set(self, topic, name, value):
        self._alter(topic, {name: value, "max.message.bytes": "2000"})

    def unset(self, topic, name):
        self._alter(topic, {"max.message.bytes": "2000"})

    def produce(self, topic, records, codec=None, idempotent=False, transactional_id=None):
        async def send():
            producer = AIOKafkaProducer(
                **self.base, acks="all", compression_type=codec, enable_idempotence=idempotent or bool(transactional_id),
                transactional_id=transactional_id, linger_ms=20, max_request_size=LARGEST)
            await producer.start()
            try:
                futures = [
                    await producer.send(topic, key=r.key, value=r.value, partition=r.partition, timestamp_ms=r.timestamp,
                                        headers=r.headers)
                    for r in records
                ]
                await asyncio.wait_for(asyncio.gather(*futures), 40)
            finally:
                await producer.stop()

        run(send())

    def consumer(self, group=None, instance=None, cooperative=False):
        return Reader(run(called(lambda: AIOKafkaConsumer(
            **self.base,
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10000,
            heartbeat_interval_ms=500,
            max_partition_fetch_bytes=LARGEST,
            partition_assignment_strategy=[RangePartitionAssignor],
        ))))

    def groups(self):
        return [g[0] for g in run(self.admin.list_consumer_groups())]

    def group(self, group):
        response, = run(self.admin.describe_consumer_groups([group]))
        (code, _, state, _, _, members, *_), = response.groups
        raise_for(code)
        # The version of DescribeGroups that it speaks knows no instance ids, and assignments stay bytes.
        return state, [(member[1], None, None) for member in members]

    def committed(self, group, topic):
        found = run(self.admin.list_consumer_group_offsets(group))
        return {p.partition: o.offset for p, o in found.items() if p.topic == topic}

    def reset(self, group, topic, partition, offset):
        async def commit():
            consumer = AIOKafkaConsumer(**self.base, group_id=group, enable_auto_commit=False)
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            await consumer.start()
            await consumer.commit({place: OffsetAndMetadata(offset, "")})
            await consumer.stop()

        run(commit())


class Reader:
    def __init__(self, consumer):
        self.consumer, self.started = consumer, False

    def start(self):
        if not self.started:
            run(self.consumer.start())
            self.started = True

    def assign(self, topic, partitions):
        run(called(self.consumer.assign, [TopicPartition(topic, p) for p in partitions]))
        self.start()

    def subscribe(self, topic):
        run(called(self.consumer.subscribe, [topic]))
        self.start()

    def poll(self):
        return [
            scenarios.Record(r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers))
            for batch in run(self.consumer.getmany(timeout_ms=200)).values()
            for r in batch
        ]

    def seek(self, topic, partition, offset):
        run(called(self.consumer.seek, TopicPartition(topic, partition), offset))

    def offset_at(self, topic, partition, timestamp):
        place = TopicPartition(topic, partition)
        found = run(self.consumer.offsets_for_times({place: timestamp}))[place]
        return found and found.offset

    def ends(self, topic, partition):
        place = TopicPartition(topic, partition)
        return run(self.consumer.beginning_offsets([place]))[place], run(self.consumer.end_offsets([place]))[place]

    def pause(self, topic, partition):
        run(called(self.consumer.pause, TopicPartition(topic, partition)))

    def resume(self, topic, partition):
        run(called(self.consumer.resume, TopicPartition(topic, partition)))

    def commit(self):
        run(self.consumer.commit())

    def assignment(self):
        return {p.partition for p in self.consumer.assignment()}

    def close(self):
        run(self.consumer.stop())


if __name__ == "__main__":
    scenarios.main(Face)
