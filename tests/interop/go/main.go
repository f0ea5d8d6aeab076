// A program that uses Apache RocketMQ's Go client as its users do, and prints what happened.
//
// Arguments: name server addresses, the broker's address, a prefix for topics and groups, then scenario names. Each scenario prints one JSON
// line: its name and either "facts" or "error". It judges nothing: pytest compares the facts.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var scenarios = map[string]func(*session) (facts, error){
	"thousand":        thousand,
	"batch":           batch,
	"oneway":          oneway,
	"async":           async,
	"properties":      properties,
	"large":           large,
	"too_large":       tooLarge,
	"long_properties": longProperties,
	"absent":          absent,
	"auto_create_off": autoCreateOff,
	"push":            push,
	"poll":            poll,
	"tags":            tags,
	"sql":             sql,
	"wake":            wake,
	"commit":          commit,
	"create":          create,
	"delete":          remove,
	"failover":        failover,
	"retries":         retries,
	"request":         request,
	"trace":           trace,
	"timed":           timed,
	"transactions":    transactions,
	"member":          member,
	"orderly_member":  orderlyMember,
}

func main() {
	rlog.SetLogLevel("error")
	s, err := newSession(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range os.Args[4:] {
		start := time.Now()
		line := facts{"scenario": name}
		if found, err := scenarios[name](s); err != nil {
			line["error"] = err.Error()
		} else {
			line["facts"] = found
		}
		line["took_ms"] = time.Since(start).Milliseconds()
		show(line)
	}
	s.close()
}

func show(line facts) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
