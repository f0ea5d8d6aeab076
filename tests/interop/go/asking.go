package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const traceTopic = "RMQ_SYS_TRACE_TOPIC"

// request: ten questions, each answered by a consumer, and one that nobody answers in time.
func request(s *session) (facts, error) {
	topic := s.name("request")
	asker, err := s.newProducer("asker")
	if err != nil {
		return nil, err
	}
	defer asker.Shutdown()
	if _, err := send(s.spread, message(topic, "no question")); err != nil {
		return nil, err
	}
	answering, err := s.listen(topic, everything, func(m *primitive.MessageExt) error {
		if !strings.HasPrefix(string(m.Body), "question") {
			return nil
		}
		answer := []byte("answer to " + string(m.Body))
		reply, err := consumer.CreateReplyMessage(m, answer)
		if err != nil {
			return err
		}
		reply.Body = answer // which this client forgets
		_, err = send(s.spread, reply)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer answering.Shutdown()
	// This client heartbeats every 30 s, and before a question for a topic that is not there yet; an answer that comes
	// before its first heartbeat finds nobody.
	_, _ = asker.Request(context.Background(), time.Millisecond, message(s.name("request_first"), "unheard"))
	answers := []string{}
	for i := 0; i < 10; i++ {
		// The first waits for the consumer's rebalance too.
		reply, err := asker.Request(context.Background(), deadline, message(topic, fmt.Sprintf("question %d", i)))
		if err != nil {
			return nil, err
		}
		answers = append(answers, string(reply.Body))
	}
	late := ""
	_, err = asker.Request(context.Background(), 1500*time.Millisecond, message(topic, "unheard"))
	if err != nil && strings.Contains(err.Error(), "wait reply message timeout") {
		late = "RequestTimeoutException" // as the Java client names it
	}
	return facts{"answers": answers, "late": late}, nil
}

// trace: what producer and consumer write to the trace topic about one message.
func trace(s *session) (facts, error) {
	topic := s.name("trace")
	config := &primitive.TraceConfig{Access: primitive.Local, Resolver: s.resolver()}
	traced, err := s.newProducer("tracing", producer.WithTrace(config))
	if err != nil {
		return nil, err
	}
	defer traced.Shutdown()
	sent, err := send(traced, message(topic, "traced"))
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	got := []string{}
	reading, err := s.listen(topic, everything, func(m *primitive.MessageExt) error {
		lock.Lock()
		defer lock.Unlock()
		got = append(got, string(m.Body))
		return nil
	}, consumer.WithTrace(config))
	if err != nil {
		return nil, err
	}
	defer reading.Shutdown()
	puller, err := s.puller(traceTopic, "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	kinds := map[string]int{}
	for end := time.Now().Add(deadline); len(kinds) < 3; {
		if time.Now().After(end) {
			return nil, fmt.Errorf("only %v within %s", kinds, deadline)
		}
		traces, err := polled(puller, 1)
		if err != nil {
			return nil, err
		}
		for _, m := range traces {
			for _, line := range strings.Split(string(m.Body), "\x02") {
				if strings.Contains(m.GetKeys(), sent.MsgID) && strings.Contains(line, sent.MsgID) {
					kinds[strings.Split(line, "\x01")[0]]++
				}
			}
		}
	}
	lock.Lock()
	defer lock.Unlock()
	return facts{"kinds": kinds, "received": got}, nil
}
