package main

import (
	"context"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// retries: a consumer that fails once, or always, until its messages are dead; and a message that comes later.
func retries(s *session) (facts, error) {
	topic, group := s.name("retries"), s.name("retrying")
	if _, err := send(s.spread, message(topic, "first")); err != nil {
		return nil, err
	}
	// The client looks for new routes every 30 s only.
	if err := s.admin.CreateTopic(context.Background(), admin.WithTopicCreate("%RETRY%"+group),
		admin.WithBrokerAddrCreate(s.broker), admin.WithReadQueueNums(1), admin.WithWriteQueueNums(1)); err != nil {
		return nil, err
	}
	if _, err := s.queues("%RETRY%" + group); err != nil {
		return nil, err
	}
	var lock sync.Mutex
	tries, triedAt := map[string][]int32{}, map[string][]time.Time{}
	seen := func(body string, count int) func() bool {
		return func() bool {
			lock.Lock()
			defer lock.Unlock()
			return len(tries[body]) >= count
		}
	}
	made, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(2))
	if err != nil {
		return nil, err
	}
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, m := range messages {
			body := string(m.Body)
			tries[body] = append(tries[body], m.ReconsumeTimes)
			triedAt[body] = append(triedAt[body], time.Now())
			if body == "never" || body == "later" && m.ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := made.Subscribe(topic, consumer.MessageSelector{}, take); err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	defer made.Shutdown()
	if err := await(seen("first", 1)); err != nil {
		return nil, err
	}
	for _, body := range []string{"later", "never"} {
		if _, err := send(s.spread, message(topic, body)); err != nil {
			return nil, err
		}
	}
	sentAt := time.Now()
	if _, err := send(s.spread, message(topic, "delayed").WithDelayTimeLevel(2)); err != nil {
		return nil, err
	}
	for body, count := range map[string]int{"never": 3, "later": 2, "delayed": 1} {
		if err := await(seen(body, count)); err != nil {
			return nil, err
		}
	}
	buried, err := s.puller("%DLQ%"+group, "*")
	if err != nil {
		return nil, err
	}
	defer buried.Shutdown()
	dead, err := polled(buried, 1)
	if err != nil {
		return nil, err
	}
	rows := [][]any{}
	for _, m := range dead {
		rows = append(rows, []any{string(m.Body), m.ReconsumeTimes, m.GetProperty("RETRY_TOPIC") == topic})
	}
	lock.Lock()
	defer lock.Unlock()
	pauses := []int64{}
	for _, times := range triedAt {
		for i := 1; i < len(times); i++ {
			pauses = append(pauses, times[i].Sub(times[i-1]).Milliseconds())
		}
	}
	return facts{"tries": tries, "pauses_ms": pauses, "dead": rows,
		"delayed_ms": triedAt["delayed"][0].Sub(sentAt).Milliseconds()}, nil
}
