package main

import (
	"strconv"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// sql: messages chosen by an expression over their properties, at the broker.
func sql(s *session) (facts, error) {
	topic := s.name("sql")
	for i := 0; i < 40; i++ {
		m := message(topic, "s"+strconv.Itoa(i))
		m.WithProperty("n", strconv.Itoa(i))
		m.WithProperty("colour", []string{"red", "green", "blue"}[i%3])
		if _, err := send(s.spread, m); err != nil {
			return nil, err
		}
	}
	wanted := "n BETWEEN 10 AND 39 AND colour IN ('red', 'blue') AND absent IS NULL"
	pushed, err := s.selected(topic, consumer.MessageSelector{Type: consumer.SQL92, Expression: wanted}, 20)
	return facts{"pushed": bodies(pushed)}, err
}
