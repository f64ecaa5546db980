// Reads orders and writes a ticket for each, with the offsets in one transaction.
//
// After any error the process ends. The next one begins at the committed offsets, and its first
// transaction aborts what was open.
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
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(os.Getenv("HIGHWATER_BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup(os.Getenv("HIGHWATER_GROUP")),
		kgo.ConsumeTopics(os.Getenv("HIGHWATER_INPUT_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second),
		kgo.TransactionalID("tickets-"+os.Getenv("HIGHWATER_INSTANCE")),
		kgo.TransactionTimeout(10*time.Second),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets())
	if err != nil {
		log.Fatal(err)
	}
	everything := context.Background()
	for {
		orders := session.PollFetches(everything)
		if err := session.Begin(); err != nil {
			log.Fatal("starting again: ", err)
		}
		promises := kgo.AbortingFirstErrPromise(session.Client())
		orders.EachRecord(func(order *kgo.Record) {
			ticket := &kgo.Record{
				Topic: os.Getenv("HIGHWATER_OUTPUT"), Key: order.Key, Value: ticketOf(order.Value)}
			session.Produce(everything, ticket, promises.Promise())
		})
		// After a rebalance nothing is committed, and the new owners read the orders again.
		if _, err := session.End(everything, promises.Err() == nil); err != nil {
			log.Fatal("starting again: ", err)
		}
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
