package main

import (
	"context"
	"slices"

	"github.com/apache/rocketmq-client-go/v2/admin"
)

// Topics made and removed on purpose.

func create(s *session) (facts, error) {
	topic := s.name("create")
	if err := createAt(s, topic, 6); err != nil {
		return nil, err
	}
	queues, err := s.queues(topic)
	if err != nil {
		return nil, err
	}
	if _, err := send(s.spread, message(topic, "in")); err != nil {
		return nil, err
	}
	got, err := s.pushed(topic, "*", 1)
	return facts{"queues": len(queues), "publish_queues": len(queues), "pulled": bodies(got)}, err
}

// remove deletes a topic, makes it again and looks where its queues begin.
func remove(s *session) (facts, error) {
	topic := s.name("delete")
	queue, err := firstQueue(s, topic)
	if err != nil {
		return nil, err
	}
	if err := sendTo(s.aimed, queue, message(topic, "gone too")); err != nil {
		return nil, err
	}
	before, err := listed(s, topic)
	if err != nil {
		return nil, err
	}
	if err = deleteTopic(s, topic); err != nil {
		return nil, err
	}
	after, err := listed(s, topic)
	if err != nil {
		return nil, err
	}
	if err := createAt(s, topic, 4); err != nil {
		return nil, err
	}
	restartsAt, err := nextOffset(s, queue)
	return facts{"listed_before": before, "listed_after": after, "restarts_at": restartsAt}, err
}

func createAt(s *session, topic string, queues int) error {
	return s.admin.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(s.broker),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
}

func deleteTopic(s *session, topic string) error {
	return s.admin.DeleteTopic(context.Background(), admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(s.broker))
}

func listed(s *session, topic string) (bool, error) {
	all, err := s.admin.FetchAllTopicList(context.Background())
	if err != nil {
		return false, err
	}
	return slices.Contains(all.TopicList, topic), nil
}
