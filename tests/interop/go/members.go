package main

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// member is a member of two groups in a process of its own: one shares the messages, one broadcasts. It prints each
// message as it comes, until a line of input tells it to leave; whoever runs it may also kill it.
func member(s *session) (facts, error) { return joined(s, "concurrent", "broadcast") }

// orderlyMember is the same in one group that keeps the order.
func orderlyMember(s *session) (facts, error) { return joined(s, "orderly") }

func joined(s *session, ways ...string) (facts, error) {
	var all []rocketmq.PushConsumer
	for _, way := range ways {
		made, err := memberOf(s, way)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	show(facts{"joined": ways})
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	for _, one := range all {
		if err := one.Shutdown(); err != nil {
			return nil, err
		}
	}
	return facts{"left": true}, nil
}

func memberOf(s *session, way string) (rocketmq.PushConsumer, error) {
	topic := s.name("members_" + way)
	model := consumer.Clustering
	if way == "broadcast" {
		model = consumer.BroadCasting
	}
	made, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(topic),
		consumer.WithInstance(topic+strconv.Itoa(os.Getpid())), consumer.WithConsumerModel(model),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(way == "orderly"),
		consumer.WithRebalanceLockInterval(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	err = made.Subscribe(topic, everything, func(_ context.Context, m ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range m {
			show(facts{"got": way, "queue": one.Queue.QueueId, "offset": one.QueueOffset, "body": string(one.Body),
				"at": time.Now().UnixNano()})
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}
