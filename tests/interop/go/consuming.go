package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Every way to consume: pushed, polled, filtered by tag, woken by arrival, continued where the last one stopped.

func push(s *session) (facts, error) {
	got, err := s.pushed(s.name("thousand"), "*", 1000)
	return facts{"received": rows(got)}, err
}

func poll(s *session) (facts, error) {
	puller, err := s.puller(s.name("thousand"), "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	got, err := polled(puller, 1000)
	return facts{"received": rows(got)}, err
}

// polled polls and acknowledges until so many messages came.
func polled(puller rocketmq.PullConsumer, count int) ([]*primitive.MessageExt, error) {
	got := []*primitive.MessageExt{}
	for end := time.Now().Add(deadline); len(got) < count; {
		if time.Now().After(end) {
			return got, fmt.Errorf("%d of %d messages within %s", len(got), count, deadline)
		}
		request, err := puller.Poll(context.Background(), 200*time.Millisecond)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			return got, err
		}
		for _, m := range request.GetMsgList() {
			m.Queue = request.GetMQ()
			got = append(got, m)
		}
		puller.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	return got, nil
}

func tags(s *session) (facts, error) {
	topic := s.name("tags")
	for i := 0; i < 30; i++ {
		m := message(topic, "t"+strconv.Itoa(i)).WithTag([]string{"red", "green", "blue"}[i%3])
		if _, err := send(s.spread, m); err != nil {
			return nil, err
		}
	}
	puller, err := s.puller(topic, "red || blue")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	two, err := polled(puller, 20)
	if err != nil {
		return nil, err
	}
	one, err := s.pushed(topic, "green", 10)
	return facts{"pulled": bodies(two), "pushed": bodies(one)}, err
}

// wake: a pull that waits at the broker must answer when a message comes, not when its time is over.
func wake(s *session) (facts, error) {
	topic := s.name("wake")
	queue, err := firstQueue(s, topic)
	if err != nil {
		return nil, err
	}
	puller, err := s.puller(topic, "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	sentAt := make(chan time.Time, 1)
	go func() {
		time.Sleep(500 * time.Millisecond) // long enough for the pull to be waiting
		sentAt <- time.Now()
		sendTo(s.aimed, queue, message(topic, "second"))
	}()
	result, err := puller.PullFrom(context.Background(), at(topic, queue.QueueId), 1, 32)
	if err != nil {
		return nil, err
	}
	status := map[primitive.PullStatus]string{primitive.PullFound: "FOUND"}[result.Status]
	return facts{"status": status, "bodies": bodies(result.GetMessageExts()),
		"woken_after_ms": time.Since(<-sentAt).Milliseconds()}, nil
}

// commit consumes some, commits and stops; another consumer of the group goes on behind them.
func commit(s *session) (facts, error) {
	topic := s.name("commit")
	queue, err := firstQueue(s, s.name("commit"))
	if err != nil {
		return nil, err
	}
	for i := 1; i < 40; i++ {
		if err := sendTo(s.aimed, queue, message(topic, "c"+strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	group := s.newGroup()
	first, err := s.pullerOf(group, "first", topic, "*")
	if err != nil {
		return nil, err
	}
	read, err := polled(first, 15)
	if err != nil {
		return nil, err
	}
	first.PersistOffset(context.Background(), topic)
	first.Shutdown()

	second, err := s.pullerOf(group, "second", topic, "*")
	if err != nil {
		return nil, err
	}
	defer second.Shutdown()
	committed, err := second.CurrentOffset(at(topic, queue.QueueId))
	if err != nil {
		return nil, err
	}
	rest, err := polled(second, 40-len(read))
	return facts{"first": bodies(read), "committed": committed, "rest": bodies(rest)}, err
}
