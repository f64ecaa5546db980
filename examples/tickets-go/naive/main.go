// Reads orders and writes a ticket for each. The client commits by a timer, every 5 s.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("HIGHWATER_BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup(os.Getenv("HIGHWATER_GROUP")),
		kgo.ConsumeTopics(os.Getenv("HIGHWATER_INPUT_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	for {
		client.PollFetches(context.Background()).EachRecord(func(order *kgo.Record) {
			ticket := &kgo.Record{
				Topic: os.Getenv("HIGHWATER_OUTPUT"), Key: order.Key, Value: ticketOf(order.Value)}
			client.Produce(context.Background(), ticket, nil)
		})
	}
}

func ticketOf(order []byte) []byte {
	var read struct{ ID string }
	if err := json.Unmarshal(order, &read); err != nil {
		log.Fatal(err)
	}
	made, _ := json.Marshal(map[string]string{"order": read.ID, "state": "open"})
	return made
}
