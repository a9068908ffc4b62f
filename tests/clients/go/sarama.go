package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

type ibm struct {
	bootstrap []string
	client    sarama.Client
	admin     sarama.ClusterAdmin
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "matrix"
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = largest
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Metadata.AllowAutoTopicCreation = false
	return config
}

func newSarama(bootstrap string) Client {
	client := &ibm{bootstrap: []string{bootstrap}}
	client.client = get(sarama.NewClient(client.bootstrap, saramaConfig()))
	client.admin = get(sarama.NewClusterAdminFromClient(client.client))
	return client
}

func (c *ibm) Module() string { return "github.com/IBM/sarama" }

func (c *ibm) TellsNull() bool { return true }

func (c *ibm) Code(err error) (int, bool) {
	var code sarama.KError
	if errors.As(err, &code) {
		return int(code), true
	}
	var several sarama.ProducerErrors
	if errors.As(err, &several) && len(several) > 0 {
		return c.Code(several[0].Err)
	}
	return 0, false
}

func (c *ibm) Create(topic string, partitions int, settings map[string]string) error {
	entries := map[string]*string{}
	for name, value := range settings {
		entries[name] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: entries}
	return c.admin.CreateTopic(topic, detail, false)
}

func (c *ibm) Topics() ([]string, error) {
	found, err := c.admin.ListTopics()
	var names []string
	for name := range found {
		names = append(names, name)
	}
	return names, err
}

func (c *ibm) Partitions(topic string) (int, error) {
	found, err := c.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	return len(found[0].Partitions), nil
}

func (c *ibm) Grow(topic string, partitions int) error {
	return c.admin.CreatePartitions(topic, int32(partitions), nil, false)
}

func (c *ibm) Delete(topic string) error { return c.admin.DeleteTopic(topic) }

func (c *ibm) Setting(topic, name string) (string, error) {
	found, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}})
	if err != nil {
		return "", err
	}
	for _, entry := range found {
		if entry.Name == name {
			return entry.Value, nil
		}
	}
	return "", errors.New("no setting " + name)
}

func (c *ibm) alter(topic, name string, entry sarama.IncrementalAlterConfigsEntry) error {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{name: entry}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false)
}

func (c *ibm) Set(topic, name, value string) error {
	return c.alter(topic, name, sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
	})
}

func (c *ibm) Unset(topic, name string) error {
	return c.alter(topic, name, sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationDelete,
	})
}

func (c *ibm) Produce(topic string, records []Record, how Sending) error {
	config := saramaConfig()
	codecs := map[string]sarama.CompressionCodec{
		"": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config.Producer.Compression = codecs[how.Codec]
	if how.Idempotent || how.TransactionalID != "" {
		config.Producer.Idempotent = true
		config.Producer.Transaction.ID = how.TransactionalID
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(c.bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var all []*sarama.ProducerMessage
	for _, r := range records {
		made := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp)}
		if r.Key != nil {
			made.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			made.Value = sarama.ByteEncoder(r.Value)
		}
		for _, header := range r.Headers {
			made.Headers = append(made.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
		}
		all = append(all, made)
	}
	return producer.SendMessages(all)
}

func saramaRecord(m *sarama.ConsumerMessage) Record {
	made := Record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, header := range m.Headers {
		made.Headers = append(made.Headers, Header{string(header.Key), header.Value})
	}
	return made
}

type saramaReader struct {
	*ibm
	topic    string
	consumer sarama.Consumer
	open     map[int32]sarama.PartitionConsumer
}

func (c *ibm) Reader(topic string, partitions ...int32) (Reader, error) {
	consumer, err := sarama.NewConsumer(c.bootstrap, saramaConfig())
	if err != nil {
		return nil, err
	}
	reader := &saramaReader{c, topic, consumer, map[int32]sarama.PartitionConsumer{}}
	for _, partition := range partitions {
		if reader.open[partition], err = consumer.ConsumePartition(topic, partition, sarama.OffsetOldest); err != nil {
			return nil, err
		}
	}
	return reader, nil
}

func (r *saramaReader) Poll() ([]Record, error) {
	var got []Record
	deadline := time.Now().Add(200 * time.Millisecond)
	for time.Now().Before(deadline) {
		before := len(got)
		for _, partition := range r.open {
			select {
			case message := <-partition.Messages():
				got = append(got, saramaRecord(message))
			case err := <-partition.Errors():
				return got, err.Err
			default:
			}
		}
		if len(got) == before {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return got, nil
}

// Seek opens the partition anew: a partition consumer has one place to start.
func (r *saramaReader) Seek(partition int32, offset int64) error {
	if err := r.open[partition].Close(); err != nil {
		return err
	}
	var err error
	r.open[partition], err = r.consumer.ConsumePartition(r.topic, partition, offset)
	return err
}

func (r *saramaReader) OffsetAt(partition int32, timestamp int64) (int64, error) {
	return r.client.GetOffset(r.topic, partition, timestamp)
}

func (r *saramaReader) Ends(partition int32) (int64, int64, error) {
	first, err := r.client.GetOffset(r.topic, partition, sarama.OffsetOldest)
	next, other := r.client.GetOffset(r.topic, partition, sarama.OffsetNewest)
	return first, next, errors.Join(err, other)
}

func (r *saramaReader) Pause(partition int32) error {
	r.consumer.Pause(map[string][]int32{r.topic: {partition}})
	return nil
}

func (r *saramaReader) Resume(partition int32) error {
	r.consumer.Resume(map[string][]int32{r.topic: {partition}})
	return nil
}

func (r *saramaReader) Close() error {
	for _, partition := range r.open {
		if err := partition.Close(); err != nil {
			return err
		}
	}
	return r.consumer.Close()
}

type saramaMember struct {
	seen    *Seen
	how     Joining
	group   sarama.ConsumerGroup
	stop    context.CancelFunc
	ended   chan struct{}
	commits chan chan struct{}
}

func (c *ibm) Join(how Joining) (Member, error) {
	config := saramaConfig()
	config.Consumer.Group.InstanceId = how.Instance
	if how.Cooperative {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	}
	group, err := sarama.NewConsumerGroup(c.bootstrap, how.Group, config)
	if err != nil {
		return nil, err
	}
	living, stop := context.WithCancel(context.Background())
	member := &saramaMember{newSeen(), how, group, stop, make(chan struct{}), make(chan chan struct{})}
	go func() {
		for err := range group.Errors() {
			member.seen.fail(err)
		}
	}()
	go func() {
		defer close(member.ended)
		for living.Err() == nil {
			if err := group.Consume(living, []string{how.Topic}, member); err != nil && living.Err() == nil {
				member.seen.fail(err)
			}
		}
	}()
	return member, nil
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	go func() {
		for {
			select {
			case done := <-m.commits:
				session.Commit()
				close(done)
			case <-session.Context().Done():
				return
			}
		}
	}()
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.seen.hold([]int32{claim.Partition()}, true)
	defer m.seen.hold([]int32{claim.Partition()}, false)
	for message := range claim.Messages() {
		m.seen.add(saramaRecord(message))
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) Seen() *Seen { return m.seen }

func (m *saramaMember) Commit() error {
	done := make(chan struct{})
	select {
	case m.commits <- done:
		<-done
		return nil
	case <-time.After(patience):
		return errors.New("no session to commit in")
	}
}

func (m *saramaMember) Close() error {
	m.stop()
	<-m.ended
	return m.group.Close()
}

func (c *ibm) Groups() ([]string, error) {
	found, err := c.admin.ListConsumerGroups()
	var names []string
	for name := range found {
		names = append(names, name)
	}
	return names, err
}

func (c *ibm) Group(group string) (string, []Described, error) {
	found, err := c.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return "", nil, err
	}
	var members []Described
	for _, member := range found[0].Members {
		described := Described{Client: member.ClientId}
		if member.GroupInstanceId != nil {
			described.Instance = *member.GroupInstanceId
		}
		if assignment, err := member.GetMemberAssignment(); err == nil && assignment != nil {
			for _, partitions := range assignment.Topics {
				described.Partitions += len(partitions)
			}
		}
		members = append(members, described)
	}
	if found[0].Err != sarama.ErrNoError {
		return "", nil, found[0].Err
	}
	return found[0].State, members, nil
}

func (c *ibm) Committed(group, topic string) (map[int32]int64, error) {
	found, err := c.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	committed := map[int32]int64{}
	for partition, block := range found.Blocks[topic] {
		committed[partition] = block.Offset
	}
	return committed, nil
}

func (c *ibm) Reset(group, topic string, partition int32, offset int64) error {
	offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {partition: {Offset: offset, LeaderEpoch: -1}}}
	done, err := c.admin.AlterConsumerGroupOffsets(group, offsets, nil)
	if err != nil {
		return err
	}
	if code := done.Errors[topic][partition]; code != sarama.ErrNoError {
		return code
	}
	return nil
}

func (c *ibm) DeleteGroup(group string) error { return c.admin.DeleteConsumerGroup(group) }
