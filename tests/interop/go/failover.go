package main

import (
	"bufio"
	"os"
	"strconv"
)

// failover: two name servers of which one is stopped in the middle. This client asks them in turn, so it must change
// over whichever is stopped. Auto-creation is off there, so topics are made. A line of input is the word to go on.
func failover(s *session) (facts, error) {
	before, after := s.name("before"), s.name("after")
	if err := createAt(s, before, 4); err != nil {
		return nil, err
	}
	if err := sendSome(s, before, 0, 3); err != nil {
		return nil, err
	}
	show(facts{"phase": "both", "chosen": s.namesrv})
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return nil, err
	}
	if err := createAt(s, after, 4); err != nil {
		return nil, err
	}
	if err := sendSome(s, before, 3, 6); err != nil {
		return nil, err
	}
	if err := sendSome(s, after, 0, 3); err != nil {
		return nil, err
	}
	old, err := s.pushed(before, "*", 6)
	if err != nil {
		return nil, err
	}
	fresh, err := s.pushed(after, "*", 3)
	return facts{"chosen": len(s.namesrv), "producers": 3, "before": bodies(old), "after": bodies(fresh)}, err
}

func sendSome(s *session, topic string, from, to int) error {
	if _, err := s.queues(topic); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if _, err := send(s.spread, message(topic, "p"+strconv.Itoa(i%3))); err != nil {
			return err
		}
	}
	return nil
}
