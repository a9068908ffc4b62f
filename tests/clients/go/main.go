// Scenarios of `cargo xtask clients` for Go clients. Usage: CLIENT BOOTSTRAP SCENARIO; prints one line of JSON: scenario, result
// (pass or fail), detail. What a scenario has to show stands in ../matrix.json, which also says what a client cannot do.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	largest  = 12_000_000
	patience = 40 * time.Second
)

// Header is one of a record; names may repeat.
type Header struct {
	Name  string
	Value []byte
}

// Record as it is sent and as it is read. A nil key or value is null, an empty one is empty.
type Record struct {
	Partition  int32
	Offset     int64
	Timestamp  int64
	Key, Value []byte
	Headers    []Header
}

// Sending says how records are produced.
type Sending struct {
	Codec           string
	Idempotent      bool
	TransactionalID string
}

// Joining says how a member joins.
type Joining struct {
	Group, Topic, Instance string
	Cooperative            bool
	// By the consumer protocol (KIP-848), with this assignor of the broker; empty for the classic protocol.
	Assignor string
	// Topic is an expression of TOPIC-1, TOPIC-2 …; partition P of TOPIC-N is held as 100 * N + P.
	Expression bool
}

// Described is a member as a description of its group shows it.
type Described struct {
	Client, Instance string
	Partitions       int
}

// Client is the face that every client has here. Errors are the client's own.
type Client interface {
	Module() string
	// Whether it tells an empty key or value from null when it reads.
	TellsNull() bool
	Code(error) (int, bool)
	Create(topic string, partitions int, settings map[string]string) error
	Topics() ([]string, error)
	Partitions(topic string) (int, error)
	Grow(topic string, partitions int) error
	Delete(topic string) error
	Setting(topic, name string) (string, error)
	Set(topic, name, value string) error
	Unset(topic, name string) error
	// In order; the partition of a record is obeyed.
	Produce(topic string, records []Record, how Sending) error
	// Partitions by hand, from their beginning.
	Reader(topic string, partitions ...int32) (Reader, error)
	Join(how Joining) (Member, error)
	Groups() ([]string, error)
	Group(group string) (string, []Described, error)
	Committed(group, topic string) (map[int32]int64, error)
	Reset(group, topic string, partition int32, offset int64) error
	DeleteGroup(group string) error
}

// ConsumerGroups is what a client has that knows the consumer protocol.
type ConsumerGroups interface {
	ConsumerGroup(group string) (string, []Described, error)
}

// Reader reads partitions without a group.
type Reader interface {
	// Waits about 0.2 s at most.
	Poll() ([]Record, error)
	Seek(partition int32, offset int64) error
	// -1 where there is none.
	OffsetAt(partition int32, timestamp int64) (int64, error)
	Ends(partition int32) (int64, int64, error)
	Pause(partition int32) error
	Resume(partition int32) error
	Close() error
}

// Member of a group that reads in the background, starts at the beginning, and commits nothing by itself.
type Member interface {
	Seen() *Seen
	Commit() error
	Close() error
}

// Seen is what a member has seen so far.
type Seen struct {
	lock    sync.Mutex
	records []Record
	held    map[int32]bool
	history []int
	failure error
}

func newSeen() *Seen {
	return &Seen{held: map[int32]bool{}}
}

func (s *Seen) add(records ...Record) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.records = append(s.records, records...)
}

func (s *Seen) hold(partitions []int32, held bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, partition := range partitions {
		if held {
			s.held[partition] = true
		} else {
			delete(s.held, partition)
		}
	}
	s.history = append(s.history, len(s.held))
}

func (s *Seen) fail(err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.failure == nil {
		s.failure = err
	}
}

func (s *Seen) all() []Record {
	s.lock.Lock()
	defer s.lock.Unlock()
	must(s.failure)
	return append([]Record(nil), s.records...)
}

func (s *Seen) holds() map[int32]bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	must(s.failure)
	held := map[int32]bool{}
	for partition := range s.held {
		held[partition] = true
	}
	return held
}

func (s *Seen) changes() []int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]int(nil), s.history...)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

func check(condition bool, format string, args ...any) {
	if !condition {
		panic(fmt.Errorf(format, args...))
	}
}

func until(what string, ready func() bool) {
	deadline := time.Now().Add(patience)
	for !ready() {
		check(time.Now().Before(deadline), "not within %v: %s", patience, what)
		time.Sleep(50 * time.Millisecond)
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	panic(fmt.Errorf("no %s in this program", module))
}

func main() {
	name, bootstrap, scenario := os.Args[1], os.Args[2], os.Args[3]
	said := struct {
		Scenario string `json:"scenario"`
		Result   string `json:"result"`
		Detail   string `json:"detail"`
	}{Scenario: scenario, Result: "fail"}
	func() {
		defer func() {
			if failure := recover(); failure != nil {
				said.Detail = fmt.Sprint(failure)
				fmt.Fprintf(os.Stderr, "%v\n%s", failure, debug.Stack())
			}
		}()
		var client Client
		switch name {
		case "franz-go":
			client = newFranz(bootstrap)
		case "sarama":
			client = newSarama(bootstrap)
		case "kafka-go":
			client = newKafkaGo(bootstrap)
		default:
			panic("no client " + name)
		}
		said.Detail = run(client, scenario)
		said.Result = "pass"
	}()
	must(json.NewEncoder(os.Stdout).Encode(said))
	if said.Result != "pass" {
		os.Exit(1)
	}
}
