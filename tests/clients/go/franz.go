package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	bootstrap string
	admin     *kadm.Client
	context   context.Context
	// One for each kind of sending, as an application keeps it.
	producers map[Sending]*kgo.Client
}

func newFranz(bootstrap string) Client {
	client := &franz{bootstrap: bootstrap, context: context.Background(), producers: map[Sending]*kgo.Client{}}
	client.admin = kadm.NewClient(get(client.open()))
	return client
}

func (c *franz) open(options ...kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{
		kgo.SeedBrokers(c.bootstrap), kgo.ClientID("matrix"), kgo.ProducerBatchMaxBytes(largest),
		kgo.FetchMaxBytes(2 * largest), kgo.FetchMaxPartitionBytes(largest), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	return kgo.NewClient(append(all, options...)...)
}

func (c *franz) Module() string { return "github.com/twmb/franz-go" }

func (c *franz) TellsNull() bool { return true }

func (c *franz) Code(err error) (int, bool) {
	var found *kerr.Error
	if !errors.As(err, &found) {
		return 0, false
	}
	return int(found.Code), true
}

func (c *franz) Create(topic string, partitions int, settings map[string]string) error {
	configs := map[string]*string{}
	for name, value := range settings {
		configs[name] = &value
	}
	_, err := c.admin.CreateTopic(c.context, int32(partitions), 1, configs, topic)
	return err
}

func (c *franz) Topics() ([]string, error) {
	found, err := c.admin.ListTopics(c.context)
	return found.Names(), err
}

func (c *franz) Partitions(topic string) (int, error) {
	found, err := c.admin.ListTopics(c.context, topic)
	return len(found[topic].Partitions), err
}

func (c *franz) Grow(topic string, partitions int) error {
	done, err := c.admin.UpdatePartitions(c.context, partitions, topic)
	return errors.Join(err, done.Error())
}

func (c *franz) Delete(topic string) error {
	_, err := c.admin.DeleteTopic(c.context, topic)
	return err
}

func (c *franz) Setting(topic, name string) (string, error) {
	found, err := c.admin.DescribeTopicConfigs(c.context, topic)
	if err != nil {
		return "", err
	}
	for _, config := range found[0].Configs {
		if config.Key == name {
			return config.MaybeValue(), found[0].Err
		}
	}
	return "", errors.New("no setting " + name)
}

func (c *franz) alter(topic string, change kadm.AlterConfig) error {
	done, err := c.admin.AlterTopicConfigs(c.context, []kadm.AlterConfig{change}, topic)
	if err != nil {
		return err
	}
	return done[0].Err
}

func (c *franz) Set(topic, name, value string) error {
	return c.alter(topic, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
}

func (c *franz) Unset(topic, name string) error {
	return c.alter(topic, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
}

func (c *franz) Produce(topic string, records []Record, how Sending) error {
	codecs := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[how.Codec]),
		kgo.ProducerLinger(20 * time.Millisecond),
	}
	if how.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(how.TransactionalID))
	} else if !how.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client := c.producers[how]
	if client == nil {
		var err error
		if client, err = c.open(options...); err != nil {
			return err
		}
		c.producers[how] = client
	}
	if how.TransactionalID != "" {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
	}
	var all []*kgo.Record
	for _, r := range records {
		made := &kgo.Record{Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp), Key: r.Key, Value: r.Value}
		for _, header := range r.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		all = append(all, made)
	}
	return client.ProduceSync(c.context, all...).FirstErr()
}

func franzRecord(r *kgo.Record) Record {
	made := Record{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, header := range r.Headers {
		made.Headers = append(made.Headers, Header{header.Key, header.Value})
	}
	return made
}

type franzReader struct {
	*franz
	topic  string
	client *kgo.Client
}

func (c *franz) Reader(topic string, partitions ...int32) (Reader, error) {
	offsets := map[int32]kgo.Offset{}
	for _, partition := range partitions {
		offsets[partition] = kgo.NewOffset().AtStart()
	}
	client, err := c.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	return &franzReader{c, topic, client}, err
}

func (r *franzReader) Poll() ([]Record, error) {
	waiting, done := context.WithTimeout(r.context, 200*time.Millisecond)
	defer done()
	return polled(r.client.PollFetches(waiting))
}

func polled(fetches kgo.Fetches) ([]Record, error) {
	var got []Record
	fetches.EachRecord(func(r *kgo.Record) { got = append(got, franzRecord(r)) })
	for _, failure := range fetches.Errors() {
		if !errors.Is(failure.Err, context.DeadlineExceeded) && !errors.Is(failure.Err, context.Canceled) {
			return got, failure.Err
		}
	}
	return got, nil
}

// Seek reads something first, and drops it: offsets can be set only of partitions that are being read.
func (r *franzReader) Seek(partition int32, offset int64) error {
	if _, err := r.Poll(); err != nil {
		return err
	}
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: {partition: {Epoch: -1, Offset: offset}}})
	return nil
}

func (r *franzReader) OffsetAt(partition int32, timestamp int64) (int64, error) {
	found, err := r.admin.ListOffsetsAfterMilli(r.context, timestamp, r.topic)
	if err != nil {
		return 0, err
	}
	// Where there is none, kadm gives the end, with the timestamp -1.
	offset, _ := found.Lookup(r.topic, partition)
	if offset.Timestamp < 0 {
		return -1, offset.Err
	}
	return offset.Offset, offset.Err
}

func (r *franzReader) Ends(partition int32) (int64, int64, error) {
	first, err := r.admin.ListStartOffsets(r.context, r.topic)
	next, other := r.admin.ListEndOffsets(r.context, r.topic)
	a, _ := first.Lookup(r.topic, partition)
	b, _ := next.Lookup(r.topic, partition)
	return a.Offset, b.Offset, errors.Join(err, other, a.Err, b.Err)
}

func (r *franzReader) Pause(partition int32) error {
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: {partition}})
	return nil
}

func (r *franzReader) Resume(partition int32) error {
	r.client.ResumeFetchPartitions(map[string][]int32{r.topic: {partition}})
	return nil
}

func (r *franzReader) Close() error {
	r.client.Close()
	return nil
}

type franzMember struct {
	seen   *Seen
	client *kgo.Client
	how    Joining
	ended  chan struct{}
}

func (c *franz) Join(how Joining) (Member, error) {
	member := &franzMember{seen: newSeen(), how: how, ended: make(chan struct{})}
	taken := func(held bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
			if how.Expression {
				var numbered []int32
				for topic, partitions := range all {
					number, _ := strconv.Atoi(topic[strings.LastIndex(topic, "-")+1:])
					for _, partition := range partitions {
						numbered = append(numbered, 100*int32(number)+partition)
					}
				}
				member.seen.hold(numbered, held)
			} else if len(all[how.Topic]) > 0 {
				member.seen.hold(all[how.Topic], held)
			}
		}
	}
	balancer := kgo.RangeBalancer()
	if how.Cooperative {
		balancer = kgo.CooperativeStickyBalancer()
	}
	if how.Assignor == "uniform" {
		// The one that stands for the broker's own.
		balancer = kgo.StickyBalancer()
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(how.Group), kgo.ConsumeTopics(how.Topic), kgo.DisableAutoCommit(), kgo.Balancers(balancer),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.OnPartitionsAssigned(taken(true)),
		kgo.OnPartitionsRevoked(taken(false)), kgo.OnPartitionsLost(taken(false)),
	}
	if how.Instance != "" {
		options = append(options, kgo.InstanceID(how.Instance))
	}
	if how.Assignor != "" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if how.Expression {
		options = append(options, kgo.ConsumeRegex())
	}
	client, err := c.open(options...)
	if err != nil {
		return nil, err
	}
	member.client = client
	go func() {
		defer close(member.ended)
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			got, err := polled(fetches)
			member.seen.add(got...)
			if err != nil {
				member.seen.fail(err)
			}
		}
	}()
	return member, nil
}

func (m *franzMember) Seen() *Seen { return m.seen }

func (m *franzMember) Commit() error { return m.client.CommitUncommittedOffsets(context.Background()) }

func (m *franzMember) Close() error {
	m.client.Close()
	<-m.ended
	return nil
}

func (c *franz) Groups() ([]string, error) {
	found, err := c.admin.ListGroups(c.context)
	return found.Groups(), err
}

func (c *franz) Group(group string) (string, []Described, error) {
	found, err := c.admin.DescribeGroups(c.context, group)
	if err != nil {
		return "", nil, err
	}
	var members []Described
	for _, member := range found[group].Members {
		described := Described{Client: member.ClientID}
		if member.InstanceID != nil {
			described.Instance = *member.InstanceID
		}
		if assignment, ok := member.Assigned.AsConsumer(); ok {
			for _, topic := range assignment.Topics {
				described.Partitions += len(topic.Partitions)
			}
		}
		members = append(members, described)
	}
	return found[group].State, members, found[group].Err
}

func (c *franz) ConsumerGroup(group string) (string, []Described, error) {
	found, err := c.admin.DescribeConsumerGroups(c.context, group)
	if err != nil {
		return "", nil, err
	}
	var members []Described
	for _, member := range found[group].Members {
		described := Described{Client: member.ClientID}
		if member.InstanceID != nil {
			described.Instance = *member.InstanceID
		}
		for _, partitions := range member.Assignment {
			described.Partitions += len(partitions)
		}
		members = append(members, described)
	}
	return found[group].State, members, found[group].Err
}

func (c *franz) Committed(group, topic string) (map[int32]int64, error) {
	found, err := c.admin.FetchOffsets(c.context, group)
	committed := map[int32]int64{}
	for partition, offset := range found[topic] {
		committed[partition] = offset.At
	}
	return committed, errors.Join(err, found.Error())
}

func (c *franz) Reset(group, topic string, partition int32, offset int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, partition, offset, -1)
	return c.admin.CommitAllOffsets(c.context, group, offsets)
}

func (c *franz) DeleteGroup(group string) error {
	_, err := c.admin.DeleteGroup(c.context, group)
	return err
}
