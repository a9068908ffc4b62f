package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

var now = time.Now().UnixMilli() - 3_600_000

func run(client Client, name string) string {
	topic := fmt.Sprintf("%s-%d", name, time.Now().UnixMilli())
	s := scenarios{client, topic}
	switch name {
	case "version":
		return version(client.Module())
	case "records":
		s.roundTrip(sample(40, 1), 1, Sending{})
	case "codec_gzip", "codec_snappy", "codec_lz4", "codec_zstd":
		s.roundTrip(sample(200, 1), 1, Sending{Codec: strings.TrimPrefix(name, "codec_")})
	case "zero_byte":
		none := []byte{}
		s.roundTrip([]Record{record(0, none, none), record(0, nil, none), record(0, none, nil)}, 1, Sending{})
	case "null_record":
		s.roundTrip([]Record{record(0, nil, nil), record(0, []byte("k"), []byte("v")), record(0, nil, nil)}, 1, Sending{})
	case "large":
		value := bytes.Repeat([]byte("0123456789abcdef"), 10*1024*1024/16)
		small := record(0, []byte("k"), []byte("small"))
		s.roundTrip([]Record{small, record(0, []byte("large"), value), small}, 1, Sending{})
	case "idempotent":
		s.roundTrip(sample(600, 3), 3, Sending{Idempotent: true})
	case "assign":
		s.assign()
	case "seek_time":
		s.seekTime()
	case "pause_resume":
		s.pauseResume()
	case "group":
		s.share(Joining{})
	case "group_cooperative":
		s.share(Joining{Cooperative: true})
	case "group_static":
		s.groupStatic()
	case "group_describe":
		s.groupDescribe()
	case "group_reset":
		s.groupReset()
	case "group_delete":
		s.groupDelete()
	case "consumer_group":
		s.share(Joining{Assignor: "uniform"})
	case "consumer_group_static":
		s.consumerGroupStatic()
	case "consumer_group_regex":
		s.consumerGroupRegex()
	case "consumer_group_range":
		s.consumerGroupRange()
	case "consumer_group_describe":
		s.consumerGroupDescribe()
	case "topics":
		s.topics()
	case "configs":
		s.configs()
	case "error_unknown_topic":
		return s.refused(client.Delete(topic))
	case "error_too_large":
		must(client.Create(topic, 1, map[string]string{"max.message.bytes": "1000"}))
		return s.refused(client.Produce(topic, []Record{record(0, nil, bytes.Repeat([]byte("x"), 5000))}, Sending{}))
	case "error_invalid_config":
		return s.refused(client.Create(topic, 1, map[string]string{"retention.ms": "banana"}))
	case "error_transactional":
		must(client.Create(topic, 1, nil))
		return s.refused(client.Produce(topic, []Record{record(0, nil, []byte("v"))}, Sending{TransactionalID: topic}))
	case "error_disk_full":
		return s.diskFull()
	default:
		panic("no scenario " + name)
	}
	return ""
}

type scenarios struct {
	client Client
	topic  string
}

func record(partition int32, key, value []byte) Record {
	return Record{Partition: partition, Timestamp: now, Key: key, Value: value}
}

func sample(count, partitions int) []Record {
	var made []Record
	for n := range count {
		key, value := fmt.Appendf(nil, "key-%d", n%7), fmt.Appendf(nil, "value-%d-%s", n, strings.Repeat("x", n%500))
		switch n % 10 {
		case 9:
			key = nil
		case 7:
			value = nil
		case 8:
			value = []byte{}
		}
		headers := []Header{{"n", []byte(strconv.Itoa(n))}, {"n", []byte("again")}, {"empty", []byte{}}}
		made = append(made, Record{int32(n % partitions), 0, now + int64(n)*1000, key, value, headers})
	}
	return made
}

// What was read is what was sent to each partition, in order, from offset 0 on.
func (s scenarios) same(sent, got []Record) {
	equal := func(a, b []byte) bool {
		return bytes.Equal(a, b) && (!s.client.TellsNull() || (a == nil) == (b == nil))
	}
	for partition := range int32(8) {
		other := func(r Record) bool { return r.Partition != partition }
		wanted, seen := slices.DeleteFunc(slices.Clone(sent), other), slices.DeleteFunc(slices.Clone(got), other)
		check(len(wanted) == len(seen), "partition %d: %d of %d records", partition, len(seen), len(wanted))
		for n := range wanted {
			a, b := wanted[n], seen[n]
			check(b.Offset == int64(n), "partition %d: offset %d instead of %d", partition, b.Offset, n)
			check(equal(a.Key, b.Key), "record %d: key %q, null %v", n, b.Key, b.Key == nil)
			check(equal(a.Value, b.Value), "record %d: value %.20q, null %v", n, b.Value, b.Value == nil)
			check(a.Timestamp == b.Timestamp, "record %d: timestamp %d instead of %d", n, b.Timestamp, a.Timestamp)
			alike := func(x, y Header) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) }
			check(slices.EqualFunc(a.Headers, b.Headers, alike), "record %d: headers %v", n, b.Headers)
		}
	}
}

func read(reader Reader, count int) []Record {
	var got []Record
	deadline := time.Now().Add(patience)
	for len(got) < count && time.Now().Before(deadline) {
		got = append(got, get(reader.Poll())...)
	}
	got = append(got, get(reader.Poll())...)
	check(len(got) == count, "read %d records instead of %d", len(got), count)
	return got
}

func (s scenarios) refused(err error) string {
	check(err != nil, "not refused")
	code, known := s.client.Code(err)
	check(known, "no error of the broker: %T %v", err, err)
	return strconv.Itoa(code)
}

// The runner has filled the smallest of devices, with a topic "filler".
func (s scenarios) diskFull() string {
	must(s.client.Create(s.topic, 1, nil))
	one := []Record{record(0, []byte("k"), []byte("v"))}
	started := time.Now()
	code := s.refused(s.client.Produce(s.topic, one, Sending{Idempotent: true}))
	check(time.Since(started) < 10*time.Second, "an application hears of it late")
	must(s.client.Delete("filler"))
	until("room after a deletion", func() bool {
		err := s.client.Produce(s.topic, one, Sending{Idempotent: true})
		if err != nil {
			check(s.refused(err) == code, "%v", err)
		}
		return err == nil
	})
	return code
}

func (s scenarios) roundTrip(records []Record, partitions int, how Sending) {
	must(s.client.Create(s.topic, partitions, nil))
	must(s.client.Produce(s.topic, records, how))
	var all []int32
	for partition := range partitions {
		all = append(all, int32(partition))
	}
	reader := get(s.client.Reader(s.topic, all...))
	s.same(records, read(reader, len(records)))
	must(reader.Close())
}

func (s scenarios) assign() {
	must(s.client.Create(s.topic, 3, nil))
	must(s.client.Produce(s.topic, sample(60, 3), Sending{}))
	reader := get(s.client.Reader(s.topic, 1))
	first, next, err := reader.Ends(1)
	must(err)
	check(first == 0 && next == 20, "ends %d and %d", first, next)
	must(reader.Seek(1, 10))
	for n, r := range read(reader, 10) {
		check(r.Partition == 1 && r.Offset == int64(10+n), "partition %d offset %d", r.Partition, r.Offset)
	}
	must(reader.Close())
}

func (s scenarios) seekTime() {
	must(s.client.Create(s.topic, 1, nil))
	must(s.client.Produce(s.topic, sample(40, 1), Sending{}))
	reader := get(s.client.Reader(s.topic, 0))
	for _, each := range [][2]int64{{1, 0}, {now + 20_000, 20}, {now + 20_001, 21}, {now + 40_000, -1}} {
		offset := get(reader.OffsetAt(0, each[0]))
		check(offset == each[1], "offset %d instead of %d", offset, each[1])
	}
	must(reader.Seek(0, 21))
	check(read(reader, 19)[0].Offset == 21, "reading went on elsewhere")
	must(reader.Close())
}

func (s scenarios) pauseResume() {
	must(s.client.Create(s.topic, 2, nil))
	reader := get(s.client.Reader(s.topic, 0, 1))
	get(reader.Poll())
	must(reader.Pause(0))
	// What was asked for before may still arrive.
	time.Sleep(time.Second)
	must(s.client.Produce(s.topic, sample(40, 2), Sending{}))
	for _, r := range read(reader, 20) {
		check(r.Partition == 1, "a record of a partition that is paused")
	}
	must(reader.Resume(0))
	check(read(reader, 20)[0].Offset == 0, "resumed elsewhere")
	must(reader.Close())
}

func (s scenarios) join(instance string, cooperative bool) Member {
	return get(s.client.Join(Joining{Group: s.topic, Topic: s.topic, Instance: instance, Cooperative: cooperative}))
}

func (s scenarios) joinBy(how Joining) Member {
	how.Group = s.topic
	if how.Topic == "" {
		how.Topic = s.topic
	}
	return get(s.client.Join(how))
}

func settled(each int, members ...Member) {
	deadline := time.Now().Add(patience)
	for {
		all, shares, good := map[int32]bool{}, []map[int32]bool{}, true
		for _, member := range members {
			held := member.Seen().holds()
			maps.Copy(all, held)
			shares = append(shares, held)
			good = good && len(held) == each
		}
		if good && len(all) == each*len(members) {
			return
		}
		check(time.Now().Before(deadline), "%v instead of %d each", shares, each)
		time.Sleep(50 * time.Millisecond)
	}
}

func (s scenarios) share(how Joining) {
	must(s.client.Create(s.topic, 4, nil))
	first := s.joinBy(how)
	settled(4, first)
	second := s.joinBy(how)
	settled(2, first, second)
	changes := first.Seen().changes()
	least := slices.Min(changes[slices.Index(changes, 4):])
	check(!how.Cooperative && how.Assignor == "" || least == 2, "held %v on the way from four partitions to two", changes)
	sent := sample(100, 4)
	must(s.client.Produce(s.topic, sent, Sending{}))
	until("100 records", func() bool { return len(first.Seen().all())+len(second.Seen().all()) >= 100 })
	check(len(first.Seen().all()) > 0 && len(second.Seen().all()) > 0, "one member read all")
	s.same(sent, append(first.Seen().all(), second.Seen().all()...))
	for _, member := range []Member{first, second} {
		must(member.Commit())
		must(member.Close())
	}
	committed := get(s.client.Committed(s.topic, s.topic))
	check(maps.Equal(committed, map[int32]int64{0: 25, 1: 25, 2: 25, 3: 25}), "committed %v", committed)
	third := s.joinBy(how)
	settled(4, third)
	var more []Record
	for partition := range int32(4) {
		more = append(more, record(partition, []byte("k"), []byte("more")))
	}
	must(s.client.Produce(s.topic, more, Sending{}))
	until("what came after the commit", func() bool { return len(third.Seen().all()) >= 4 })
	for _, r := range third.Seen().all() {
		check(r.Offset == 25, "the group went on at %d", r.Offset)
	}
	must(third.Close())
}

func (s scenarios) groupStatic() {
	must(s.client.Create(s.topic, 4, nil))
	first, second := s.join("one", false), s.join("two", false)
	settled(2, first, second)
	held, before := first.Seen().holds(), len(second.Seen().changes())
	must(first.Close())
	time.Sleep(time.Second)
	_, members, err := s.client.Group(s.topic)
	must(err)
	check(len(members) == 2 && members[0].Instance+members[1].Instance != "", "members while one is away: %v", members)
	first = s.join("one", false)
	settled(2, first, second)
	check(maps.Equal(first.Seen().holds(), held), "%v instead of %v", first.Seen().holds(), held)
	check(len(second.Seen().changes()) == before, "the other member saw a rebalance")
	must(first.Close())
	must(second.Close())
}

func (s scenarios) groupDescribe() {
	must(s.client.Create(s.topic, 4, nil))
	member := s.join("", false)
	settled(4, member)
	check(slices.Contains(get(s.client.Groups()), s.topic), "not listed")
	state, members, err := s.client.Group(s.topic)
	must(err)
	check(state == "Stable" && len(members) == 1, "%s with %v", state, members)
	check(members[0].Client == "matrix" && members[0].Partitions == 4, "%v", members)
	must(member.Close())
	state, members, err = s.client.Group(s.topic)
	must(err)
	check(state == "Empty" && len(members) == 0, "%s with %v", state, members)
}

func (s scenarios) readAll() Member {
	must(s.client.Create(s.topic, 1, nil))
	must(s.client.Produce(s.topic, sample(20, 1), Sending{}))
	member := s.join("", false)
	until("20 records", func() bool { return len(member.Seen().all()) >= 20 })
	must(member.Commit())
	return member
}

func (s scenarios) groupReset() {
	must(s.readAll().Close())
	committed := get(s.client.Committed(s.topic, s.topic))
	check(maps.Equal(committed, map[int32]int64{0: 20}), "committed %v", committed)
	must(s.client.Reset(s.topic, s.topic, 0, 5))
	committed = get(s.client.Committed(s.topic, s.topic))
	check(maps.Equal(committed, map[int32]int64{0: 5}), "set back to %v", committed)
	member := s.join("", false)
	until("15 records", func() bool { return len(member.Seen().all()) >= 15 })
	check(member.Seen().all()[0].Offset == 5, "began elsewhere")
	must(member.Close())
}

func (s scenarios) groupDelete() {
	member := s.readAll()
	code := s.refused(s.client.DeleteGroup(s.topic))
	check(code == "68", "a group with a member: %s instead of NON_EMPTY_GROUP", code)
	must(member.Close())
	must(s.client.DeleteGroup(s.topic))
	check(!slices.Contains(get(s.client.Groups()), s.topic), "still listed")
}

func (s scenarios) consumerGroupStatic() {
	must(s.client.Create(s.topic, 4, nil))
	one := Joining{Instance: "one", Assignor: "uniform"}
	first, second := s.joinBy(one), s.joinBy(Joining{Instance: "two", Assignor: "uniform"})
	settled(2, first, second)
	held, before := first.Seen().holds(), len(second.Seen().changes())
	must(first.Close())
	time.Sleep(6 * time.Second)
	_, members, err := s.client.(ConsumerGroups).ConsumerGroup(s.topic)
	must(err)
	check(len(members) == 2 && members[0].Instance+members[1].Instance != "", "members while one is away: %v", members)
	first = s.joinBy(one)
	settled(2, first, second)
	check(maps.Equal(first.Seen().holds(), held), "%v instead of %v", first.Seen().holds(), held)
	check(len(second.Seen().changes()) == before, "the other member saw a rebalance")
	must(first.Close())
	must(second.Close())
}

func (s scenarios) alongside(number int) {
	topic := fmt.Sprintf("%s-%d", s.topic, number)
	must(s.client.Create(topic, 1, nil))
	must(s.client.Produce(topic, []Record{record(0, nil, []byte(topic))}, Sending{}))
}

func (s scenarios) consumerGroupRegex() {
	s.alongside(1)
	member := s.joinBy(Joining{Topic: "^" + s.topic + "-.*", Assignor: "uniform", Expression: true})
	until("a record of the first topic", func() bool { return len(member.Seen().all()) == 1 })
	s.alongside(2)
	until("a record of the topic made after the join", func() bool { return len(member.Seen().all()) == 2 })
	check(string(member.Seen().all()[1].Value) == s.topic+"-2", "another record")
	must(member.Close())
}

func (s scenarios) consumerGroupRange() {
	s.alongside(1)
	s.alongside(2)
	how := Joining{Topic: "^" + s.topic + "-.*", Assignor: "range", Expression: true}
	members := []Member{s.joinBy(how), s.joinBy(how)}
	uneven := func() bool {
		one, other := len(members[0].Seen().holds()), len(members[1].Seen().holds())
		return one+other == 2 && one != 1
	}
	until("the first partitions of both topics with one member", uneven)
	// Uniform would even it out by now.
	time.Sleep(11 * time.Second)
	check(uneven(), "the first partitions of both topics are not with one member")
	for _, member := range members {
		must(member.Close())
	}
}

func (s scenarios) consumerGroupDescribe() {
	must(s.client.Create(s.topic, 4, nil))
	how := Joining{Assignor: "uniform"}
	members := []Member{s.joinBy(how), s.joinBy(how)}
	settled(2, members...)
	described := func() (string, []Described) {
		state, found, err := s.client.(ConsumerGroups).ConsumerGroup(s.topic)
		must(err)
		return state, found
	}
	until("stable", func() bool { state, _ := described(); return state == "Stable" })
	check(slices.Contains(get(s.client.Groups()), s.topic), "not listed")
	_, found := described()
	check(len(found) == 2 && found[0] == found[1] && found[0] == (Described{"matrix", "", 2}), "%v", found)
	code := s.refused(s.client.DeleteGroup(s.topic))
	check(code == "68", "a group with members: %s instead of NON_EMPTY_GROUP", code)
	for _, member := range members {
		must(member.Close())
	}
	state, found := described()
	check(state == "Empty" && len(found) == 0, "%s with %v", state, found)
	must(s.client.DeleteGroup(s.topic))
	check(!slices.Contains(get(s.client.Groups()), s.topic), "still listed")
}

func (s scenarios) topics() {
	must(s.client.Create(s.topic, 3, nil))
	check(slices.Contains(get(s.client.Topics()), s.topic), "not listed")
	check(get(s.client.Partitions(s.topic)) == 3, "partitions")
	code := s.refused(s.client.Create(s.topic, 3, nil))
	check(code == "36", "a second of the name: %s instead of TOPIC_ALREADY_EXISTS", code)
	// What is changed may be seen a little later.
	must(s.client.Grow(s.topic, 5))
	until("5 partitions", func() bool { return get(s.client.Partitions(s.topic)) == 5 })
	must(s.client.Delete(s.topic))
	until("no longer listed", func() bool { return !slices.Contains(get(s.client.Topics()), s.topic) })
}

func (s scenarios) configs() {
	must(s.client.Create(s.topic, 1, map[string]string{"retention.ms": "7200000"}))
	expect := func(wanted string) {
		value := get(s.client.Setting(s.topic, "retention.ms"))
		check(value == wanted, "%s instead of %s", value, wanted)
	}
	expect("7200000")
	must(s.client.Set(s.topic, "retention.ms", "3600000"))
	expect("3600000")
	must(s.client.Unset(s.topic, "retention.ms"))
	expect("604800000")
}
