package main

import (
	"context"
	"slices"
	"strings"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// What the broker must refuse, and that nothing is stored by it.

func tooLarge(s *session) (facts, error) {
	topic := s.name("too_large")
	queue, err := firstQueue(s, topic)
	if err != nil {
		return nil, err
	}
	over := refusal(sendTo(s.aimed, queue, primitive.NewMessage(topic, make([]byte, 4<<20+1))))
	atLimit := refusal(sendTo(s.aimed, queue, primitive.NewMessage(topic, make([]byte, 4<<20))))
	next, err := nextOffset(s, queue)
	return facts{"over_limit_code": over, "at_limit_code": atLimit, "next_offset": next}, err
}

func longProperties(s *session) (facts, error) {
	topic := s.name("long_properties")
	queue, err := firstQueue(s, topic)
	if err != nil {
		return nil, err
	}
	m := message(topic, "second")
	m.WithProperty("long", strings.Repeat("x", 32767))
	code := refusal(sendTo(s.aimed, queue, m))
	next, err := nextOffset(s, queue)
	return facts{"code": code, "next_offset": next}, err
}

// absent is a topic that nobody created, and that may not be created either: its pattern hands nothing down.
func absent(s *session) (facts, error) {
	pattern := s.name("pattern")
	queue, err := firstQueue(s, pattern)
	if err != nil {
		return nil, err
	}
	plain, err := s.newProducer("absent", producer.WithCreateTopicKey(pattern))
	if err != nil {
		return nil, err
	}
	defer plain.Shutdown()
	topic := s.name("absent")
	_, sendErr := send(plain, message(topic, "nobody"))
	puller, err := s.puller(pattern, "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	_, pullErr := puller.PullFrom(context.Background(), at(topic, queue.QueueId), 0, 1)
	return facts{"send_code": refusal(sendErr), "pull_code": refusal(pullErr)}, nil
}

// autoCreateOff is the same against a broker with autoCreateTopicEnable=false: there the client finds no route at all.
func autoCreateOff(s *session) (facts, error) {
	topic := s.name("never")
	before, err := s.admin.FetchAllTopicList(context.Background())
	if err != nil {
		return nil, err
	}
	_, sendErr := send(s.spread, message(topic, "nobody"))
	after, err := s.admin.FetchAllTopicList(context.Background())
	if err != nil {
		return nil, err
	}
	return facts{"refused": sendErr != nil, "pattern_known": slices.Contains(before.TopicList, "TBW102"),
		"created": slices.Contains(after.TopicList, topic)}, nil
}

// firstQueue sends one message and gives the queue that took it.
func firstQueue(s *session, topic string) (*primitive.MessageQueue, error) {
	result, err := send(s.spread, message(topic, "first"))
	if err != nil {
		return nil, err
	}
	_, err = s.queues(topic)
	return result.MessageQueue, err
}

func nextOffset(s *session, queue *primitive.MessageQueue) (int64, error) {
	m := message(queue.Topic, "last")
	m.Queue = queue
	result, err := send(s.aimed, m)
	if err != nil {
		return -1, err
	}
	return result.QueueOffset, nil
}

func sendTo(p rocketmq.Producer, queue *primitive.MessageQueue, m *primitive.Message) error {
	m.Queue = queue
	_, err := send(p, m)
	return err
}
