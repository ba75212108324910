package testkit

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/stoatdb/stoat"
)

// A Work is a kind of work of a database: background jobs, and values that arrive
// as readers.
type Work int

// The kinds of work that a WorkTally counts.
const (
	Flushes Work = iota
	Merges
	Joins      // merges that join value files
	Gatherings // merges that bring values into the order of their keys
	drops      // value files with nothing live that are given back
	Rewrites   // value files with something live that are collected
	Streams    // values given as readers, in files of their own
	works
)

// AllWork is every kind of work.
var AllWork = []Work{Flushes, Merges, Joins, Gatherings, drops, Rewrites, Streams}

var workNames = [works]string{"flushes", "merges", "joins", "gatherings", "drops of value files", "rewrites of value files", "values streamed"}

// A WorkTally counts the work of any number of databases. So a campaign can fail when it
// never met the work that it must test.
type WorkTally [works]atomic.Int64

// Note is Options.Events. The tally is complete when Close returns.
func (w *WorkTally) Note(e stoat.Event) {
	switch e := e.(type) {
	case stoat.FlushDone:
		w[Flushes].Add(1)
	case stoat.CompactionDone:
		switch {
		case strings.Contains(e.Plan, "joined"):
			w[Joins].Add(1)
		case strings.Contains(e.Plan, "gathered"):
			w[Gatherings].Add(1)
		case strings.Contains(e.Plan, "merged"):
			w[Merges].Add(1)
		}
	case stoat.CollectionDone:
		if e.OutputBytes > 0 {
			w[Rewrites].Add(1)
		} else {
			w[drops].Add(1)
		}
	}
}

// Add adds the counts of o.
func (w *WorkTally) Add(o *WorkTally) {
	for i := range w {
		w[i].Add(o[i].Load())
	}
}

// Lacks returns an error that names each kind of wanted whose count is zero.
func (w *WorkTally) Lacks(wanted ...Work) error {
	var none []string
	for _, k := range wanted {
		if w[k].Load() == 0 {
			none = append(none, workNames[k])
		}
	}
	if none != nil {
		return fmt.Errorf("no %s, of %v", strings.Join(none, ", no "), w)
	}
	return nil
}

// String names all kinds with their counts.
func (w *WorkTally) String() string {
	var all []string
	for k, name := range workNames {
		all = append(all, fmt.Sprintf("%d %s", w[k].Load(), name))
	}
	return strings.Join(all, ", ")
}
