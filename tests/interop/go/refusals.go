package main

import (
	"context"
	"slices"
	"strings"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
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

// absent pulls from a topic that nobody created. (A send would create it: this client always names TBW102 as pattern.)
func absent(s *session) (facts, error) {
	pattern := s.name("pattern")
	queue, err := firstQueue(s, pattern)
	if err != nil {
		return nil, err
	}
	puller, err := s.puller(pattern, "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	_, pullErr := puller.PullFrom(context.Background(), at(s.name("absent"), queue.QueueId), 0, 1)
	return facts{"pull_code": refusal(pullErr)}, nil
}

// autoCreateOff sends to a broker with autoCreateTopicEnable=false: to a topic without a route, and to one that was
// deleted while the producer still had its route.
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
	deletedCode, err := sendToDeleted(s)
	if err != nil {
		return nil, err
	}
	return facts{"refused": sendErr != nil, "deleted_code": deletedCode, "pattern_known": slices.Contains(before.TopicList, "TBW102"),
		"created": slices.Contains(after.TopicList, topic)}, nil
}

func sendToDeleted(s *session) (int, error) {
	topic := s.name("deleted")
	if err := createAt(s, topic, 4); err != nil {
		return 0, err
	}
	if _, err := s.queues(topic); err != nil {
		return 0, err
	}
	if _, err := send(s.spread, message(topic, "before")); err != nil {
		return 0, err
	}
	if err := deleteTopic(s, topic); err != nil {
		return 0, err
	}
	_, err := send(s.spread, message(topic, "after"))
	return refusal(err), nil
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
