package main

import (
	"strconv"
	"time"
)

// timed sends messages for a time of their own, by their properties: this client has no methods for it.
func timed(s *session) (facts, error) {
	topic := s.name("timed")
	now := time.Now().UnixMilli()
	due := map[string]int64{}
	put := func(body, property string, value, dueMs int64) error {
		m := message(topic, body)
		m.WithProperty(property, strconv.FormatInt(value, 10))
		due[body] = dueMs
		_, err := send(s.spread, m)
		return err
	}
	for _, err := range []error{
		put("sec", "TIMER_DELAY_SEC", 1, time.Now().UnixMilli()+1000),
		put("ms", "TIMER_DELAY_MS", 1300, time.Now().UnixMilli()+1300),
		put("at", "TIMER_DELIVER_MS", now+1700, now+1700),
		put("past", "TIMER_DELIVER_MS", now-5000, now-5000),
		put("last", "TIMER_DELIVER_MS", now+3200, now+3200),
	} {
		if err != nil {
			return nil, err
		}
	}
	tooFar := refusal(put("too far", "TIMER_DELAY_SEC", 4*24*3600, 0))
	puller, err := s.puller(topic, "*")
	if err != nil {
		return nil, err
	}
	defer puller.Shutdown()
	got, err := polled(puller, 5)
	late := map[string]int64{}
	for _, m := range got {
		late[string(m.Body)] = m.StoreTimestamp - due[string(m.Body)]
	}
	return facts{"late_ms": late, "count": len(got), "recalled": nil, "too_far": tooFar}, err
}
