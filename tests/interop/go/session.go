package main

import (
	"context"
	"errors"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	deadline   = 20 * time.Second
	brokerName = "broker-a"
)

// session holds what the scenarios share: two producers, an admin, and names that no other client uses.
type session struct {
	namesrv []string
	broker  string // its address, for calls that name one
	prefix  string
	// spread takes the queues in turn; aimed sends to the queue that the message names.
	spread rocketmq.Producer
	aimed  rocketmq.Producer
	admin  admin.Admin
	groups int
}

type facts map[string]any

// everything is the selector that leaves nothing out.
var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

// received is a message as the facts show it: queue, offset, body.
type received [3]any

func newSession(namesrv, broker, prefix string) (*session, error) {
	s := &session{namesrv: strings.Split(namesrv, ";"), broker: broker, prefix: prefix}
	var err error
	if s.spread, err = s.newProducer("spread"); err != nil {
		return nil, err
	}
	if s.aimed, err = s.newProducer("aimed", producer.WithQueueSelector(producer.NewManualQueueSelector()),
		producer.WithCompressMsgBodyOverHowmuch(1<<30)); err != nil {
		return nil, err
	}
	s.admin, err = admin.NewAdmin(admin.WithResolver(s.resolver()))
	return s, err
}

func (s *session) close() {
	s.spread.Shutdown()
	s.aimed.Shutdown()
	s.admin.Close()
}

func (s *session) name(suffix string) string { return s.prefix + "_" + suffix }

func (s *session) resolver() primitive.NsResolver { return primitive.NewPassthroughResolver(s.namesrv) }

func (s *session) newProducer(group string, options ...producer.Option) (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(append([]producer.Option{
		producer.WithNsResolver(s.resolver()), producer.WithGroupName(s.name(group)),
		producer.WithInstanceName(s.name(group)), producer.WithSendMsgTimeout(10 * time.Second),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// newGroup names a consumer group that nobody used before.
func (s *session) newGroup() string {
	s.groups++
	return s.name("group" + strconv.Itoa(s.groups))
}

func message(topic, body string) *primitive.Message { return primitive.NewMessage(topic, []byte(body)) }

func send(p rocketmq.Producer, m *primitive.Message) (*primitive.SendResult, error) {
	return p.SendSync(context.Background(), m)
}

func at(topic string, queue int) *primitive.MessageQueue {
	return &primitive.MessageQueue{Topic: topic, BrokerName: brokerName, QueueId: queue}
}

// queues waits, because a new topic reaches the name servers a moment after its first message.
func (s *session) queues(topic string) ([]*primitive.MessageQueue, error) {
	var found []*primitive.MessageQueue
	err := await(func() bool {
		var err error
		found, err = s.admin.FetchPublishMessageQueues(context.Background(), topic)
		return err == nil && len(found) > 0
	})
	return found, err
}

// puller gives a running pull consumer of the topic in a group of its own.
func (s *session) puller(topic, expression string) (rocketmq.PullConsumer, error) {
	return s.pullerOf(s.newGroup(), "", topic, expression)
}

func (s *session) pullerOf(group, instance, topic, expression string) (rocketmq.PullConsumer, error) {
	if _, err := s.queues(topic); err != nil {
		return nil, err
	}
	made, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(group+instance), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}); err != nil {
		return nil, err
	}
	return made, made.Start()
}

// pushed consumes the topic from its beginning until so many messages came, and gives them by queue and offset.
func (s *session) pushed(topic, expression string, count int) ([]*primitive.MessageExt, error) {
	return s.selected(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}, count)
}

func (s *session) selected(topic string, selector consumer.MessageSelector, count int) ([]*primitive.MessageExt, error) {
	var lock sync.Mutex
	var got []*primitive.MessageExt
	made, err := s.listen(topic, selector, func(m *primitive.MessageExt) error {
		lock.Lock()
		defer lock.Unlock()
		got = append(got, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = await(func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(got) >= count
	})
	made.Shutdown()
	lock.Lock()
	defer lock.Unlock()
	sort.Slice(got, func(i, j int) bool {
		if got[i].Queue.QueueId != got[j].Queue.QueueId {
			return got[i].Queue.QueueId < got[j].Queue.QueueId
		}
		return got[i].QueueOffset < got[j].QueueOffset
	})
	return got, err
}

// listen starts a push consumer of the topic, in a group of its own, from the first message on.
func (s *session) listen(topic string, selector consumer.MessageSelector, take func(*primitive.MessageExt) error,
	options ...consumer.Option) (rocketmq.PushConsumer, error) {
	if _, err := s.queues(topic); err != nil {
		return nil, err
	}
	group := s.newGroup()
	made, err := rocketmq.NewPushConsumer(append([]consumer.Option{
		consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(group), consumer.WithInstance(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	err = made.Subscribe(topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			if err := take(m); err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func bodies(messages []*primitive.MessageExt) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, string(m.Body))
	}
	return out
}

func rows(messages []*primitive.MessageExt) []received {
	out := []received{}
	for _, m := range messages {
		out = append(out, received{m.Queue.QueueId, m.QueueOffset, string(m.Body)})
	}
	return out
}

// await asks until the answer is yes; after the deadline it says so.
func await(question func() bool) error {
	for end := time.Now().Add(deadline); !question(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("waited " + deadline.String() + " in vain")
		}
	}
	return nil
}

var codeInText = regexp.MustCompile(`(?i)code: ?(-?\d+)`)

// refusal is the response code in an error (this client keeps it only in the text): 0 for none, -1 for one without.
func refusal(err error) int {
	if err == nil {
		return 0
	}
	found := codeInText.FindStringSubmatch(err.Error())
	if found == nil {
		return -1
	}
	code, _ := strconv.Atoi(found[1])
	return code
}
