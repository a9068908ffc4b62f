// Kafka's own Java clients: producer, consumer, admin. Usage: Scenarios BOOTSTRAP SCENARIO; prints one line of JSON.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

public final class Scenarios {
    static final Duration PATIENCE = Duration.ofSeconds(40);
    static final long NOW_MS = System.currentTimeMillis() - 3_600_000;
    static final int LARGEST = 12_000_000;

    final String bootstrap;
    final String topic;
    final Admin admin;
    /** One for each kind of sending, as an application keeps it. */
    final Map<Map<String, String>, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Scenarios(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.admin = Admin.create(settings(Map.of()));
    }

    public static void main(String[] args) throws Exception {
        var said = new LinkedHashMap<String, String>();
        said.put("scenario", args[1]);
        try {
            var scenarios = new Scenarios(args[0], args[1] + "-" + System.currentTimeMillis());
            var detail = scenarios.run(args[1]);
            said.put("result", "pass");
            said.put("detail", detail);
        } catch (Throwable failure) {
            failure.printStackTrace();
            said.put("result", "fail");
            said.put("detail", failure.toString());
        }
        System.out.println(new ObjectMapper().writeValueAsString(said));
        System.out.flush();
        // Threads of a client may be stuck in what has failed.
        Runtime.getRuntime().halt(said.get("result").equals("pass") ? 0 : 1);
    }

    String run(String name) throws Exception {
        switch (name) {
            case "version": return AppInfoParser.getVersion();
            case "records": roundTrip(sample(40, 1), 1, Map.of()); break;
            case "codec_gzip", "codec_snappy", "codec_lz4", "codec_zstd":
                roundTrip(sample(200, 1), 1, Map.of("compression.type", name.substring("codec_".length())));
                break;
            case "zero_byte": zeroByte(); break;
            case "null_record": roundTrip(List.of(record(0, null, null), record(0, "k", "v"), record(0, null, null)), 1, Map.of()); break;
            case "large": large(); break;
            case "idempotent": roundTrip(sample(600, 3), 3, Map.of("enable.idempotence", "true")); break;
            case "assign": assign(); break;
            case "seek_time": seekTime(); break;
            case "pause_resume": pauseResume(); break;
            case "group": share(assignedBy("org.apache.kafka.clients.consumer.RangeAssignor")); break;
            case "group_cooperative":
                var first = share(assignedBy("org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
                check(first.history.stream().limit(2).allMatch(held -> held.size() >= 2), "gave up everything: " + first.history);
                break;
            case "group_static": groupStatic(); break;
            case "group_describe": groupDescribe(); break;
            case "group_reset": groupReset(); break;
            case "group_delete": groupDelete(); break;
            case "consumer_group":
                var held = share(CONSUMER).history;
                check(held.stream().limit(2).allMatch(each -> each.size() >= 2), "gave up everything: " + held);
                break;
            case "consumer_group_static": consumerGroupStatic(); break;
            case "consumer_group_regex": consumerGroupRegex(); break;
            case "consumer_group_range": consumerGroupRange(); break;
            case "consumer_group_describe": consumerGroupDescribe(); break;
            case "topics": topics(); break;
            case "configs": configs(); break;
            case "error_unknown_topic": return refused(() -> admin.deleteTopics(List.of(topic)).all().get());
            case "error_too_large":
                create(1, Map.of("max.message.bytes", "1000"));
                return refused(() -> produce(List.of(record(0, "k", "x".repeat(5000))), Map.of()));
            case "error_invalid_config": return refused(() -> create(1, Map.of("retention.ms", "banana")));
            case "error_transactional": return transactional();
            case "error_disk_full": return diskFull();
            default: throw new IllegalArgumentException("no scenario " + name);
        }
        return "";
    }

    // --- what all scenarios use

    static void check(boolean condition, String text) {
        if (!condition) throw new AssertionError(text);
    }

    static void until(Callable<Boolean> ready, Supplier<String> what) throws Exception {
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!ready.call()) {
            check(System.nanoTime() < deadline, "not in time: " + what.get());
            Thread.sleep(50);
        }
    }

    /** Kafka's code of the error. */
    static String refused(Callable<?> act) throws Exception {
        try {
            act.call();
        } catch (Exception error) {
            var cause = error instanceof ExecutionException ? error.getCause() : error;
            return Short.toString(Errors.forException(cause).code());
        }
        throw new AssertionError("not refused");
    }

    Map<String, Object> settings(Map<String, String> more) {
        var all = new HashMap<String, Object>(Map.of("bootstrap.servers", bootstrap, "client.id", "matrix"));
        all.putAll(more);
        return all;
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes();
    }

    ProducerRecord<byte[], byte[]> record(int partition, String key, String value, Header... headers) {
        return new ProducerRecord<>(topic, partition, NOW_MS, bytes(key), bytes(value), List.of(headers));
    }

    List<ProducerRecord<byte[], byte[]>> sample(int count, int partitions) {
        var made = new ArrayList<ProducerRecord<byte[], byte[]>>();
        for (int n = 0; n < count; n++) {
            var key = n % 10 == 9 ? null : "key-" + n % 7;
            var value = n % 10 == 7 ? null : n % 10 == 8 ? "" : "value-" + n + "-" + "x".repeat(n % 500);
            List<Header> headers = List.of(
                new RecordHeader("n", bytes("" + n)), new RecordHeader("n", bytes("again")),
                new RecordHeader("empty", bytes("")), new RecordHeader("null", null));
            made.add(new ProducerRecord<>(topic, n % partitions, NOW_MS + n * 1000L, bytes(key), bytes(value), headers));
        }
        return made;
    }

    boolean create(int partitions, Map<String, String> settings) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(settings))).all().get();
        return true;
    }

    boolean produce(List<ProducerRecord<byte[], byte[]>> records, Map<String, String> how) throws Exception {
        var all = settings(Map.of("max.request.size", "" + LARGEST, "linger.ms", "20", "delivery.timeout.ms", "40000"));
        all.putAll(how);
        var serializer = new ByteArraySerializer();
        var producer = producers.computeIfAbsent(how, kind -> new KafkaProducer<>(all, serializer, serializer));
        var futures = new ArrayList<Future<RecordMetadata>>();
        for (var record : records) futures.add(producer.send(record));
        for (var future : futures) future.get();
        return true;
    }

    KafkaConsumer<byte[], byte[]> consumer(Map<String, String> how) {
        var all = settings(Map.of(
            "auto.offset.reset", "earliest", "enable.auto.commit", "false", "max.partition.fetch.bytes", "" + LARGEST));
        // By the consumer protocol (KIP-848) these are the broker's business.
        if (!how.containsKey("group.protocol")) all.putAll(Map.of("session.timeout.ms", "10000", "heartbeat.interval.ms", "500"));
        all.putAll(how);
        var deserializer = new ByteArrayDeserializer();
        return new KafkaConsumer<>(all, deserializer, deserializer);
    }

    TopicPartition place(int partition) {
        return new TopicPartition(topic, partition);
    }

    /** A consumer of the first partitions by hand, from their beginning. */
    KafkaConsumer<byte[], byte[]> reader(int... partitions) {
        var consumer = consumer(Map.of());
        consumer.assign(IntStream.of(partitions).mapToObj(this::place).toList());
        return consumer;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        var got = new ArrayList<ConsumerRecord<byte[], byte[]>>();
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (got.size() < count && System.nanoTime() < deadline) consumer.poll(Duration.ofMillis(200)).forEach(got::add);
        consumer.poll(Duration.ofMillis(200)).forEach(got::add);
        check(got.size() == count, "read " + got.size() + " records instead of " + count);
        return got;
    }

    /** What was read is what was sent to each partition, in order, from offset 0 on. */
    static void same(List<ProducerRecord<byte[], byte[]>> sent, List<ConsumerRecord<byte[], byte[]>> got) {
        for (int partition : sent.stream().map(ProducerRecord::partition).collect(Collectors.toSet())) {
            var wanted = sent.stream().filter(r -> r.partition() == partition).toList();
            var seen = got.stream().filter(r -> r.partition() == partition).toList();
            check(wanted.size() == seen.size(), seen.size() + " of " + wanted.size() + " in partition " + partition);
            for (int n = 0; n < wanted.size(); n++) {
                var a = wanted.get(n);
                var b = seen.get(n);
                check(b.offset() == n, "offset " + b.offset() + " instead of " + n);
                check(Arrays.equals(a.key(), b.key()) && Arrays.equals(a.value(), b.value()), "key or value at " + n);
                check(a.timestamp() == b.timestamp() && a.headers().equals(b.headers()), "headers or timestamp at " + n);
            }
        }
    }

    void roundTrip(List<ProducerRecord<byte[], byte[]>> records, int partitions, Map<String, String> how) throws Exception {
        create(partitions, Map.of());
        produce(records, how);
        try (var consumer = reader(IntStream.range(0, partitions).toArray())) {
            same(records, read(consumer, records.size()));
        }
    }

    /** A member of a group in a thread of its own. */
    final class Member extends Thread {
        final KafkaConsumer<byte[], byte[]> consumer;
        final List<ConsumerRecord<byte[], byte[]>> records = Collections.synchronizedList(new ArrayList<>());
        final List<Set<Integer>> history = Collections.synchronizedList(new ArrayList<>());
        volatile Set<Integer> held = Set.of();
        volatile boolean ending;
        volatile boolean committing;
        volatile Throwable failure;

        final SubscriptionPattern pattern;
        volatile int places;

        Member(Map<String, String> how) {
            this(how, null);
        }

        /** Of all topics that the expression describes, if there is one. */
        Member(Map<String, String> how, SubscriptionPattern pattern) {
            this.pattern = pattern;
            var all = new HashMap<>(how);
            all.put("group.id", topic);
            consumer = consumer(all);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            try {
                if (pattern == null) consumer.subscribe(List.of(topic));
                else consumer.subscribe(pattern);
                while (!ending) {
                    consumer.poll(Duration.ofMillis(100)).forEach(records::add);
                    Set<Integer> now = new TreeSet<>();
                    consumer.assignment().forEach(place -> now.add(place.partition()));
                    if (!now.equals(held)) history.add(now);
                    held = now;
                    places = consumer.assignment().size();
                    if (committing) {
                        consumer.commitSync();
                        committing = false;
                    }
                }
                consumer.close();
            } catch (Throwable error) {
                error.printStackTrace();
                failure = error;
            }
        }

        void commit() throws Exception {
            committing = true;
            until(() -> !committing || failure != null, () -> "commit");
        }

        void close() throws Exception {
            ending = true;
            join(PATIENCE.toMillis());
            check(failure == null && !isAlive(), "member: " + failure);
        }
    }

    static void settled(List<Member> members, int each) throws Exception {
        until(() -> {
            for (var member : members) check(member.failure == null, "member: " + member.failure);
            Set<Integer> all = new HashSet<>();
            members.forEach(member -> all.addAll(member.held));
            return members.stream().allMatch(member -> member.held.size() == each) && all.size() == each * members.size();
        }, () -> members.stream().map(member -> member.held).toList() + " instead of " + each + " each");
    }

    Map<Integer, Long> committed() throws Exception {
        var found = new HashMap<Integer, Long>();
        admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get()
            .forEach((place, offset) -> found.put(place.partition(), offset.offset()));
        return found;
    }

    ConsumerGroupDescription described() throws Exception {
        return admin.describeConsumerGroups(List.of(topic)).all().get().get(topic);
    }

    boolean isListed() throws Exception {
        return admin.listGroups().all().get().stream().anyMatch(group -> group.groupId().equals(topic));
    }

    // --- scenarios

    void zeroByte() throws Exception {
        var header = new RecordHeader("", bytes(""));
        roundTrip(List.of(record(0, "", "", header), record(0, null, "", header), record(0, "", null, header)), 1, Map.of());
    }

    void large() throws Exception {
        var value = "0123456789abcdef".repeat(10 * 1024 * 1024 / 16);
        roundTrip(List.of(record(0, "before", "small"), record(0, "large", value), record(0, "after", "small")), 1, Map.of());
    }

    void assign() throws Exception {
        create(3, Map.of());
        produce(sample(60, 3), Map.of());
        try (var consumer = reader(1)) {
            check(consumer.beginningOffsets(List.of(place(1))).get(place(1)) == 0, "first offset");
            check(consumer.endOffsets(List.of(place(1))).get(place(1)) == 20, "next offset");
            consumer.seek(place(1), 10);
            var got = read(consumer, 10);
            for (int n = 0; n < 10; n++) check(got.get(n).partition() == 1 && got.get(n).offset() == 10 + n, "elsewhere");
        }
    }

    void seekTime() throws Exception {
        create(1, Map.of());
        produce(sample(40, 1), Map.of());
        try (var consumer = reader(0)) {
            var wanted = new LinkedHashMap<Long, Long>();
            wanted.put(0L, 0L);
            wanted.put(NOW_MS + 20_000, 20L);
            wanted.put(NOW_MS + 20_001, 21L);
            wanted.put(NOW_MS + 40_000, null);
            for (var each : wanted.entrySet()) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place(0), each.getKey())).get(place(0));
                var offset = found == null ? null : (Long) found.offset();
                check(Objects.equals(offset, each.getValue()), "offset " + offset + " instead of " + each.getValue());
            }
            consumer.seek(place(0), 21);
            check(read(consumer, 19).get(0).offset() == 21, "reading went on elsewhere");
        }
    }

    void pauseResume() throws Exception {
        create(2, Map.of());
        try (var consumer = reader(0, 1)) {
            consumer.poll(Duration.ofMillis(200));
            consumer.pause(List.of(place(0)));
            produce(sample(40, 2), Map.of());
            check(read(consumer, 20).stream().allMatch(r -> r.partition() == 1), "records of a partition that is paused");
            consumer.resume(List.of(place(0)));
            check(read(consumer, 20).get(0).offset() == 0, "resumed elsewhere");
        }
    }

    static Map<String, String> assignedBy(String assignor) {
        return Map.of("partition.assignment.strategy", assignor);
    }

    Member share(Map<String, String> how) throws Exception {
        create(4, Map.of());
        var first = new Member(how);
        settled(List.of(first), 4);
        var second = new Member(how);
        settled(List.of(first, second), 2);
        var sent = sample(100, 4);
        produce(sent, Map.of());
        until(() -> first.records.size() + second.records.size() >= 100, () -> "100 records");
        check(!first.records.isEmpty() && !second.records.isEmpty(), "one member read all");
        var got = new ArrayList<>(first.records);
        got.addAll(second.records);
        same(sent, got);
        for (var member : List.of(first, second)) {
            member.commit();
            member.close();
        }
        check(committed().equals(Map.of(0, 25L, 1, 25L, 2, 25L, 3, 25L)), "committed " + committed());
        var third = new Member(how);
        settled(List.of(third), 4);
        produce(IntStream.range(0, 4).mapToObj(p -> record(p, "k", "more")).toList(), Map.of());
        until(() -> third.records.size() >= 4, () -> "what came after the commit");
        check(third.records.stream().allMatch(r -> r.offset() == 25) && third.records.size() == 4, "went on elsewhere");
        third.close();
        return first;
    }

    void groupStatic() throws Exception {
        create(4, Map.of());
        var first = new Member(Map.of("group.instance.id", "one"));
        var second = new Member(Map.of("group.instance.id", "two"));
        settled(List.of(first, second), 2);
        var held = first.held;
        var before = second.history.size();
        first.close();
        Thread.sleep(1000);
        var there = described().members().stream().map(member -> member.groupInstanceId().orElse("")).sorted().toList();
        check(there.equals(List.of("one", "two")), "members while one is away: " + there);
        var again = new Member(Map.of("group.instance.id", "one"));
        settled(List.of(again, second), 2);
        check(again.held.equals(held), again.held + " instead of " + held);
        check(second.history.size() == before, "the other member saw a rebalance");
        again.close();
        second.close();
    }

    void groupDescribe() throws Exception {
        create(4, Map.of());
        var member = new Member(Map.of());
        settled(List.of(member), 4);
        check(isListed(), "not listed");
        var group = described();
        check(group.groupState().toString().equals("Stable"), "state " + group.groupState());
        check(group.members().size() == 1, "members " + group.members());
        var only = group.members().iterator().next();
        check(only.clientId().equals("matrix") && only.assignment().topicPartitions().size() == 4, "member " + only);
        member.close();
        check(described().groupState().toString().equals("Empty") && described().members().isEmpty(), "" + described());
    }

    Member readAll() throws Exception {
        create(1, Map.of());
        produce(sample(20, 1), Map.of());
        var member = new Member(Map.of());
        until(() -> member.records.size() == 20, () -> "20 records, " + member.failure);
        member.commit();
        return member;
    }

    void groupReset() throws Exception {
        readAll().close();
        check(committed().equals(Map.of(0, 20L)), "committed " + committed());
        admin.alterConsumerGroupOffsets(topic, Map.of(place(0), new OffsetAndMetadata(5))).all().get();
        check(committed().equals(Map.of(0, 5L)), "committed " + committed());
        var member = new Member(Map.of());
        until(() -> member.records.size() >= 15, () -> "15 records");
        check(member.records.get(0).offset() == 5, "began elsewhere");
        member.close();
    }

    void groupDelete() throws Exception {
        var member = readAll();
        var code = refused(() -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        check(code.equals("68"), "a group with a member: " + code);
        member.close();
        admin.deleteConsumerGroups(List.of(topic)).all().get();
        check(!isListed(), "still listed");
    }

    static final Map<String, String> CONSUMER = Map.of("group.protocol", "consumer");

    static Map<String, String> with(String name, String value) {
        return Map.of("group.protocol", "consumer", name, value);
    }

    SubscriptionPattern pattern() {
        return new SubscriptionPattern(topic + "-.*");
    }

    void alongside(int number) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic + "-" + number, 1, (short) 1))).all().get();
    }

    void consumerGroupStatic() throws Exception {
        create(4, Map.of());
        var first = new Member(with("group.instance.id", "one"));
        var second = new Member(with("group.instance.id", "two"));
        settled(List.of(first, second), 2);
        var held = first.held;
        var before = second.history.size();
        first.close();
        Thread.sleep(6000);
        var there = described().members().stream().map(member -> member.groupInstanceId().orElse("")).sorted().toList();
        check(there.equals(List.of("one", "two")), "members while one is away: " + there);
        var again = new Member(with("group.instance.id", "one"));
        settled(List.of(again, second), 2);
        check(again.held.equals(held), again.held + " instead of " + held);
        check(second.history.size() == before, "the other member saw a rebalance");
        again.close();
        second.close();
    }

    void consumerGroupRegex() throws Exception {
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings(Map.of()), serializer, serializer)) {
            alongside(1);
            producer.send(new ProducerRecord<>(topic + "-1", bytes("first"))).get();
            var member = new Member(CONSUMER, pattern());
            until(() -> member.records.size() == 1, () -> "a record of the first topic, " + member.failure);
            alongside(2);
            producer.send(new ProducerRecord<>(topic + "-2", bytes("second"))).get();
            until(() -> member.records.size() == 2, () -> "a record of the topic that was made after the join");
            check(Arrays.equals(member.records.get(1).value(), bytes("second")), "another record");
            member.close();
        }
    }

    void consumerGroupRange() throws Exception {
        alongside(1);
        alongside(2);
        var how = with("group.remote.assignor", "range");
        var members = List.of(new Member(how, pattern()), new Member(how, pattern()));
        Callable<Boolean> uneven = () -> members.stream().map(member -> member.places).sorted().toList().equals(List.of(0, 2));
        until(uneven, () -> members.stream().map(member -> member.places + " " + member.failure).toList().toString());
        // Uniform would even it out by now.
        Thread.sleep(11_000);
        check(uneven.call(), "the first partitions of both topics are not with one member");
        check(described().partitionAssignor().equals("range"), "assignor " + described().partitionAssignor());
        for (var member : members) member.close();
    }

    void consumerGroupDescribe() throws Exception {
        create(4, Map.of());
        var members = List.of(new Member(CONSUMER), new Member(CONSUMER));
        settled(members, 2);
        until(() -> described().groupState().toString().equals("Stable"), () -> "stable");
        var group = described();
        check(group.type().toString().equals("Consumer"), "type " + group.type());
        check(group.members().size() == 2, "members " + group.members());
        for (var member : group.members()) {
            check(member.clientId().equals("matrix") && member.assignment().topicPartitions().size() == 2, "member " + member);
        }
        var code = refused(() -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        check(code.equals("68"), "a group with members: " + code);
        for (var member : members) member.close();
        check(described().groupState().toString().equals("Empty") && described().members().isEmpty(), "" + described());
        admin.deleteConsumerGroups(List.of(topic)).all().get();
        check(!isListed(), "still listed");
    }

    int partitions() throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    void topics() throws Exception {
        create(3, Map.of());
        check(admin.listTopics().names().get().contains(topic), "not listed");
        check(partitions() == 3, partitions() + " partitions");
        var code = refused(() -> create(3, Map.of()));
        check(code.equals("36"), "a second of the name: " + code);
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        // What is changed may be seen a little later.
        until(() -> partitions() == 5, () -> "5 partitions");
        admin.deleteTopics(List.of(topic)).all().get();
        until(() -> !admin.listTopics().names().get().contains(topic), () -> "no longer listed");
    }

    void configs() throws Exception {
        create(1, Map.of("retention.ms", "7200000"));
        check(setting().equals("7200000"), "as created: " + setting());
        alter("3600000", AlterConfigOp.OpType.SET);
        check(setting().equals("3600000"), "as altered: " + setting());
        alter(null, AlterConfigOp.OpType.DELETE);
        check(setting().equals("604800000"), "the default is back: " + setting());
    }

    String setting() throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
    }

    void alter(String value, AlterConfigOp.OpType operation) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Collection<AlterConfigOp> change = List.of(new AlterConfigOp(new ConfigEntry("retention.ms", value), operation));
        admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
    }

    /** The runner has filled the smallest of devices, with a topic `filler`. */
    String diskFull() throws Exception {
        create(1, Map.of());
        Callable<String> send = () -> refused(() -> produce(List.of(record(0, "k", "v")), Map.of()));
        var started = System.nanoTime();
        var code = send.call();
        check(System.nanoTime() - started < 10_000_000_000L, "an application hears of it late");
        try (var consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition("filler", 0)));
            until(() -> !consumer.poll(Duration.ofMillis(200)).isEmpty(), () -> "a record that is read while the device is full");
        }
        admin.deleteTopics(List.of("filler")).all().get();
        until(() -> {
            try {
                check(send.call().equals(code), "another error");
                return false;
            } catch (AssertionError taken) {
                check(taken.getMessage().equals("not refused"), taken.getMessage());
                return true;
            }
        }, () -> "room after a deletion");
        return code;
    }

    String transactional() throws Exception {
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings(Map.of("transactional.id", topic)), serializer, serializer)) {
            return refused(() -> {
                producer.initTransactions();
                return null;
            });
        }
    }
}
