package main

import (
	"bufio"
	"context"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	warm  = 40
	more  = 40
	quiet = 3 * time.Second
)

// table is the local side of the transactions: what has begun, and what becomes of it.
type table struct {
	begun sync.Map
	asked atomic.Int32
}

func (t *table) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	body := string(m.Body)
	t.begun.Store(body, true)
	switch {
	case strings.HasPrefix(body, "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(body, "rollback"):
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (t *table) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	t.asked.Add(1)
	body := string(m.Body)
	if _, begun := t.begun.Load(body); begun && wanted(body) {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func wanted(body string) bool {
	return strings.HasPrefix(body, "commit") || strings.HasPrefix(body, "later")
}

// transactions sends in transactions while the broker is killed and started again: see Transactions.java.
//
// This client sends its heartbeats a second after its start and then every 30 s; a consumer that joins it sends one at
// once, by which the broker knows the producer again.
func transactions(s *session) (facts, error) {
	topic, instance := s.name("transactions"), s.name("transactor")
	if _, err := send(s.spread, message(topic, "first")); err != nil {
		return nil, err
	}
	local := &table{}
	made, err := rocketmq.NewTransactionProducer(local, producer.WithNsResolver(s.resolver()),
		producer.WithGroupName(s.name("transactors")), producer.WithInstanceName(instance), producer.WithRetry(0),
		producer.WithSendMsgTimeout(3*time.Second))
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	word := make(chan bool, 1)
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		word <- true
	}()
	kinds := []string{"commit", "rollback", "later", "undo"}
	failures, left, back := 0, more, false
	var got sync.Map // place → body
	for i := 0; left > 0; i++ {
		if i == warm {
			if err = await(func() bool { return local.asked.Load() > 0 }); err != nil {
				return nil, err
			}
			show(facts{"phase": "sending"})
		}
		if _, err = made.SendMessageInTransaction(context.Background(), message(topic, kinds[i%4]+strconv.Itoa(i))); err != nil {
			failures++
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		select {
		case <-word:
			back = true
			joined, err := join(s, topic, instance, &got)
			if err != nil {
				return nil, err
			}
			defer func() { _ = joined.Shutdown() }()
		default:
		}
		if back {
			left--
		}
	}
	expected := map[string]bool{"first": true}
	count := 0
	local.begun.Range(func(body, _ any) bool {
		count++
		if wanted(body.(string)) {
			expected[body.(string)] = true
		}
		return true
	})
	// It may have looked for routes while the broker was away; then it finds it again 30 s later.
	for end := time.Now().Add(2 * deadline); len(missing(expected, &got)) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(quiet) // some rounds of checks more: what would come twice would come now
	lost := missing(expected, &got)
	seen := map[string]bool{}
	extra, twice := []string{}, 0
	got.Range(func(_, one any) bool {
		body := one.(string)
		if seen[body] {
			twice++
		} else if !expected[body] {
			extra = append(extra, body)
		}
		seen[body] = true
		return true
	})
	return facts{"expected": len(expected), "begun": count, "lost": lost, "extra": extra, "twice": twice,
		"failures": failures, "asked": []int32{local.asked.Load()}}, made.Shutdown()
}

// missing is what was expected and did not come.
func missing(expected map[string]bool, got *sync.Map) []string {
	seen := map[string]bool{}
	got.Range(func(_, body any) bool {
		seen[body.(string)] = true
		return true
	})
	lost := []string{}
	for body := range expected {
		if !seen[body] {
			lost = append(lost, body)
		}
	}
	sort.Strings(lost)
	return lost
}

// join starts a consumer that shares the producer's connections, and keeps what comes by its place.
func join(s *session, topic, instance string, got *sync.Map) (rocketmq.PushConsumer, error) {
	made, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(s.newGroup()),
		consumer.WithInstance(instance), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	keep := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			got.Store([2]int64{int64(one.Queue.QueueId), one.QueueOffset}, string(one.Body))
		}
		return consumer.ConsumeSuccess, nil
	}
	if err = made.Subscribe(topic, everything, keep); err != nil {
		return nil, err
	}
	return made, made.Start()
}
