package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand"
	"strconv"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Every way to send, each read back.

const largeBytes = 39 * 1024 * 1024 / 10

func thousand(s *session) (facts, error) {
	topic := s.name("thousand")
	sent := []any{}
	counts := map[int]int64{}
	for i := 0; i < 1000; i++ {
		body := "m" + strconv.Itoa(i)
		result, err := send(s.spread, message(topic, body))
		if err != nil {
			return nil, err
		}
		status := map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}[result.Status]
		sent = append(sent, []any{result.MessageQueue.QueueId, result.QueueOffset, body, status})
		counts[result.MessageQueue.QueueId]++
	}
	queues, err := s.queues(topic)
	if err != nil {
		return nil, err
	}
	pulled := map[int][]any{}
	for queue, count := range counts {
		if pulled[queue], err = pullQueue(s, topic, queue, count); err != nil {
			return nil, err
		}
	}
	return facts{"queues": len(queues), "sent": sent, "pulled": pulled}, nil
}

// pullQueue pulls to the end that the broker names: one pull more would wait for a message that never comes.
func pullQueue(s *session, topic string, queue int, atLeast int64) ([]any, error) {
	puller, err := s.puller(topic, "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	out := []any{}
	for offset, end := int64(0), atLeast; offset < end; {
		result, err := puller.PullFrom(context.Background(), at(topic, queue), offset, 32)
		if err != nil {
			return nil, err
		}
		if result.Status != primitive.PullFound {
			return nil, fmt.Errorf("pull of queue %d at %d: status %d", queue, offset, result.Status)
		}
		for _, m := range result.GetMessageExts() {
			out = append(out, []any{m.QueueOffset, string(m.Body)})
		}
		offset, end = result.NextBeginOffset, max(end, result.MaxOffset)
	}
	return out, nil
}

func batch(s *session) (facts, error) {
	topic := s.name("batch")
	messages := []*primitive.Message{}
	for i := 0; i < 100; i++ {
		messages = append(messages, message(topic, "b"+strconv.Itoa(i)).WithTag("t"+strconv.Itoa(i%2)))
	}
	if _, err := s.spread.SendSync(context.Background(), messages...); err != nil {
		return nil, err
	}
	got, err := s.pushed(topic, "*", 100)
	if err != nil {
		return nil, err
	}
	tagged, err := s.pushed(topic, "t1", 50)
	used := map[int]bool{}
	for _, m := range got {
		used[m.Queue.QueueId] = true
	}
	return facts{"pulled": bodies(got), "queues_used": len(used), "tagged": len(tagged)}, err
}

func oneway(s *session) (facts, error) {
	topic := s.name("oneway")
	for i := 0; i < 100; i++ {
		if err := s.spread.SendOneWay(context.Background(), message(topic, "o"+strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	got, err := s.pushed(topic, "*", 100)
	return facts{"pulled": bodies(got)}, err
}

func async(s *session) (facts, error) {
	topic := s.name("async")
	var lock sync.Mutex
	called, acknowledged, failures := 0, 0, []string{}
	for i := 0; i < 200; i++ {
		err := s.spread.SendAsync(context.Background(), func(_ context.Context, r *primitive.SendResult, err error) {
			lock.Lock()
			defer lock.Unlock()
			called++
			if err != nil {
				failures = append(failures, err.Error())
			} else if r.Status == primitive.SendOK {
				acknowledged++
			}
		}, message(topic, "a"+strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
	}
	err := await(func() bool {
		lock.Lock()
		defer lock.Unlock()
		return called == 200
	})
	if err != nil {
		return nil, err
	}
	got, err := s.pushed(topic, "*", 200)
	return facts{"all_called_back": true, "acknowledged": acknowledged, "failures": failures, "pulled": bodies(got)}, err
}

func properties(s *session) (facts, error) {
	topic := s.name("properties")
	m := message(topic, "grüße 彗星 ☄").WithTag("tag-1").WithKeys([]string{"key-1", "key-2"})
	m.WithProperty("colour", "grün")
	m.Flag = 7
	result, err := send(s.spread, m)
	if err != nil {
		return nil, err
	}
	got, err := s.pushed(topic, "*", 1)
	if err != nil {
		return nil, err
	}
	found := got[0]
	return facts{
		"body": string(found.Body), "tags": found.GetTags(), "keys": found.GetKeys(), "flag": found.Flag,
		"colour": found.GetProperty("colour"), "id_equal": found.MsgId == result.MsgID,
		"reconsume_times": found.ReconsumeTimes, "born_before_stored": found.BornTimestamp <= found.StoreTimestamp,
	}, nil
}

func large(s *session) (facts, error) {
	topic := s.name("large")
	noise := make([]byte, largeBytes)
	rand.New(rand.NewSource(20)).Read(noise)
	zeros := make([]byte, 1<<20) // shrinks well, so the client compresses it
	sent := []string{}
	for _, body := range [][]byte{noise, zeros} {
		if _, err := send(s.spread, primitive.NewMessage(topic, body)); err != nil {
			return nil, err
		}
		sent = append(sent, digest(body))
	}
	got, err := s.pushed(topic, "*", 2)
	pulled := []string{}
	for _, m := range got {
		pulled = append(pulled, digest(m.Body))
	}
	return facts{"size": len(noise), "sent": sent, "pulled": pulled}, err
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
