package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type segment struct {
	address   net.Addr
	bootstrap string
	client    *kafka.Client
	dialer    *kafka.Dialer
	context   context.Context
}

func newKafkaGo(bootstrap string) Client {
	address := kafka.TCP(bootstrap)
	client := &segment{address: address, bootstrap: bootstrap, context: context.Background()}
	transport := &kafka.Transport{ClientID: "matrix", MetadataTTL: 200 * time.Millisecond}
	client.client = &kafka.Client{Addr: address, Transport: transport}
	client.dialer = &kafka.Dialer{ClientID: "matrix", Timeout: 10 * time.Second}
	return client
}

func (c *segment) Module() string { return "github.com/segmentio/kafka-go" }

func (c *segment) TellsNull() bool { return false }

func (c *segment) Code(err error) (int, bool) {
	var code kafka.Error
	if errors.As(err, &code) {
		return int(code), true
	}
	var several kafka.WriteErrors
	if errors.As(err, &several) && len(several) > 0 {
		return c.Code(several[0])
	}
	return 0, false
}

func (c *segment) Create(topic string, partitions int, settings map[string]string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	for name, value := range settings {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	done, err := c.client.CreateTopics(c.context, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (c *segment) metadata(topics ...string) ([]kafka.Topic, error) {
	found, err := c.client.Metadata(c.context, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	return found.Topics, nil
}

func (c *segment) Topics() ([]string, error) {
	found, err := c.metadata()
	var names []string
	for _, topic := range found {
		names = append(names, topic.Name)
	}
	return names, err
}

func (c *segment) Partitions(topic string) (int, error) {
	// Asked without the transport, which keeps what it knows of a topic for a while.
	conn, err := c.dialer.Dial("tcp", c.bootstrap)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	found, err := conn.ReadPartitions(topic)
	return len(found), err
}

func (c *segment) Grow(topic string, partitions int) error {
	wanted := []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(partitions)}}
	done, err := c.client.CreatePartitions(c.context, &kafka.CreatePartitionsRequest{Topics: wanted})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (c *segment) Delete(topic string) error {
	done, err := c.client.DeleteTopics(c.context, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (c *segment) Setting(topic, name string) (string, error) {
	found, err := c.client.DescribeConfigs(c.context, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name},
		}},
	})
	if err != nil {
		return "", err
	}
	for _, entry := range found.Resources[0].ConfigEntries {
		if entry.ConfigName == name {
			return entry.ConfigValue, found.Resources[0].Error
		}
	}
	return "", errors.New("no setting " + name)
}

func (c *segment) alter(topic string, change kafka.IncrementalAlterConfigsRequestConfig) error {
	done, err := c.client.IncrementalAlterConfigs(c.context, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{change},
		}},
	})
	if err != nil {
		return err
	}
	return done.Resources[0].Error
}

func (c *segment) Set(topic, name, value string) error {
	return c.alter(topic, kafka.IncrementalAlterConfigsRequestConfig{
		Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
	})
}

func (c *segment) Unset(topic, name string) error {
	return c.alter(topic, kafka.IncrementalAlterConfigsRequestConfig{Name: name, ConfigOperation: kafka.ConfigOperationDelete})
}

// byHand puts a message where its record says.
type byHand struct{}

func (byHand) Balance(message kafka.Message, _ ...int) int { return message.WriterData.(int) }

func (c *segment) Produce(topic string, records []Record, how Sending) error {
	if how.TransactionalID != "" {
		done, err := c.client.InitProducerID(c.context, &kafka.InitProducerIDRequest{
			TransactionalID: how.TransactionalID, TransactionTimeoutMs: 10_000,
		})
		if err != nil {
			return err
		}
		return done.Error
	}
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	writer := &kafka.Writer{
		Addr: c.address, Topic: topic, Balancer: byHand{}, BatchBytes: largest, BatchTimeout: 20 * time.Millisecond,
		RequiredAcks: kafka.RequireAll, Compression: codecs[how.Codec], Transport: c.client.Transport, MaxAttempts: 3,
	}
	defer writer.Close()
	var all []kafka.Message
	for _, r := range records {
		made := kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp), WriterData: int(r.Partition)}
		for _, header := range r.Headers {
			made.Headers = append(made.Headers, kafka.Header{Key: header.Name, Value: header.Value})
		}
		all = append(all, made)
	}
	return writer.WriteMessages(c.context, all...)
}

func kafkaGoRecord(m kafka.Message) Record {
	made := Record{Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, header := range m.Headers {
		made.Headers = append(made.Headers, Header{header.Key, header.Value})
	}
	return made
}

func (c *segment) partition(topic string, partition int, offset int64) (*kafka.Reader, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{c.bootstrap}, Topic: topic, Partition: partition, MaxBytes: largest, Dialer: c.dialer,
		MaxWait: 200 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
	})
	return reader, reader.SetOffset(offset)
}

type kafkaGoReader struct {
	*segment
	topic string
	open  map[int32]*kafka.Reader
}

func (c *segment) Reader(topic string, partitions ...int32) (Reader, error) {
	reader := &kafkaGoReader{c, topic, map[int32]*kafka.Reader{}}
	for _, partition := range partitions {
		one, err := c.partition(topic, int(partition), kafka.FirstOffset)
		if err != nil {
			return nil, err
		}
		reader.open[partition] = one
	}
	return reader, nil
}

func (r *kafkaGoReader) Poll() ([]Record, error) {
	var got []Record
	for _, reader := range r.open {
		waiting, done := context.WithTimeout(r.context, 300*time.Millisecond)
		for {
			message, err := reader.FetchMessage(waiting)
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				done()
				return got, err
			}
			got = append(got, kafkaGoRecord(message))
		}
		done()
	}
	return got, nil
}

func (r *kafkaGoReader) Seek(partition int32, offset int64) error {
	return r.open[partition].SetOffset(offset)
}

func (r *kafkaGoReader) offsets(partition int32, wanted ...kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	found, err := r.client.ListOffsets(r.context, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{r.topic: wanted},
	})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	return found.Topics[r.topic][0], found.Topics[r.topic][0].Error
}

func (r *kafkaGoReader) OffsetAt(partition int32, timestamp int64) (int64, error) {
	found, err := r.offsets(partition, kafka.TimeOffsetOf(int(partition), time.UnixMilli(timestamp)))
	for offset := range found.Offsets {
		return offset, err
	}
	return -1, err
}

func (r *kafkaGoReader) Ends(partition int32) (int64, int64, error) {
	found, err := r.offsets(partition, kafka.FirstOffsetOf(int(partition)), kafka.LastOffsetOf(int(partition)))
	return found.FirstOffset, found.LastOffset, err
}

func (r *kafkaGoReader) Pause(int32) error  { return errors.ErrUnsupported }
func (r *kafkaGoReader) Resume(int32) error { return errors.ErrUnsupported }

func (r *kafkaGoReader) Close() error {
	for _, reader := range r.open {
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}

type kafkaGoMember struct {
	seen       *Seen
	group      *kafka.ConsumerGroup
	how        Joining
	stop       context.CancelFunc
	ended      chan struct{}
	lock       sync.Mutex
	generation *kafka.Generation
	next       map[int]int64
}

func (c *segment) Join(how Joining) (Member, error) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: how.Group, Brokers: []string{c.bootstrap}, Topics: []string{how.Topic}, Dialer: c.dialer,
		GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}, StartOffset: kafka.FirstOffset,
		SessionTimeout: 10 * time.Second, HeartbeatInterval: 500 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	living, stop := context.WithCancel(context.Background())
	member := &kafkaGoMember{seen: newSeen(), group: group, how: how, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(member.ended)
		for living.Err() == nil {
			generation, err := group.Next(living)
			if err != nil {
				if living.Err() == nil && !errors.Is(err, kafka.ErrGroupClosed) {
					member.seen.fail(err)
				}
				return
			}
			member.lock.Lock()
			member.generation, member.next = generation, map[int]int64{}
			member.lock.Unlock()
			for _, assigned := range generation.Assignments[how.Topic] {
				generation.Start(func(during context.Context) { member.read(c, during, assigned) })
			}
		}
	}()
	return member, nil
}

func (m *kafkaGoMember) read(c *segment, during context.Context, assigned kafka.PartitionAssignment) {
	m.seen.hold([]int32{int32(assigned.ID)}, true)
	defer m.seen.hold([]int32{int32(assigned.ID)}, false)
	reader, err := c.partition(m.how.Topic, assigned.ID, assigned.Offset)
	if err != nil {
		m.seen.fail(err)
		return
	}
	defer reader.Close()
	for {
		message, err := reader.FetchMessage(during)
		if err != nil {
			if during.Err() == nil && !errors.Is(err, kafka.ErrGenerationEnded) && !errors.Is(err, io.EOF) {
				m.seen.fail(err)
			}
			return
		}
		m.lock.Lock()
		m.next[message.Partition] = message.Offset + 1
		m.lock.Unlock()
		m.seen.add(kafkaGoRecord(message))
	}
}

func (m *kafkaGoMember) Seen() *Seen { return m.seen }

func (m *kafkaGoMember) Commit() error {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.generation.CommitOffsets(map[string]map[int]int64{m.how.Topic: m.next})
}

func (m *kafkaGoMember) Close() error {
	m.stop()
	err := m.group.Close()
	<-m.ended
	return err
}

func (c *segment) Groups() ([]string, error) {
	found, err := c.client.ListGroups(c.context, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, group := range found.Groups {
		names = append(names, group.GroupID)
	}
	return names, found.Error
}

func (c *segment) Group(group string) (string, []Described, error) {
	found, err := c.client.DescribeGroups(c.context, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return "", nil, err
	}
	var members []Described
	for _, member := range found.Groups[0].Members {
		described := Described{Client: member.ClientID}
		for _, topic := range member.MemberAssignments.Topics {
			described.Partitions += len(topic.Partitions)
		}
		members = append(members, described)
	}
	return found.Groups[0].GroupState, members, found.Groups[0].Error
}

func (c *segment) Committed(group, topic string) (map[int32]int64, error) {
	count, err := c.Partitions(topic)
	if err != nil {
		return nil, err
	}
	asked := map[string][]int{topic: {}}
	for partition := range count {
		asked[topic] = append(asked[topic], partition)
	}
	found, err := c.client.OffsetFetch(c.context, &kafka.OffsetFetchRequest{GroupID: group, Topics: asked})
	if err != nil {
		return nil, err
	}
	committed := map[int32]int64{}
	for _, partition := range found.Topics[topic] {
		committed[int32(partition.Partition)] = partition.CommittedOffset
	}
	return committed, found.Error
}

func (c *segment) Reset(group, topic string, partition int32, offset int64) error {
	done, err := c.client.OffsetCommit(c.context, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: int(partition), Offset: offset}}},
	})
	if err != nil {
		return err
	}
	return done.Topics[topic][0].Error
}

func (c *segment) DeleteGroup(group string) error {
	done, err := c.client.DeleteGroups(c.context, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return done.Errors[group]
}
