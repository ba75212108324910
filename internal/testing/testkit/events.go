package testkit

import (
	"sync"

	"github.com/stoatdb/stoat"
)

// An EventLog keeps the events of a database.
type EventLog struct {
	mu  sync.Mutex
	All []stoat.Event
}

// Add is Options.Events.
func (l *EventLog) Add(e stoat.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.All = append(l.All, e)
}

// CountEvents returns how many events of type E there were.
func CountEvents[E stoat.Event](l *EventLog) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.All {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}
