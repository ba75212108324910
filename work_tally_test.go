package stoat_test

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/stoatdb/stoat"
)

// A work is a kind of work that is done behind users, or by an operation of theirs.
type work int

const (
	flushes work = iota
	merges
	joins      // merges that join value files
	gatherings // merges that bring values into the order of their keys
	drops      // value files with nothing live that are given back
	rewrites   // value files with something live that are collected
	streams    // values given as readers, in files of their own
	works
)

var allWork = []work{flushes, merges, joins, gatherings, drops, rewrites, streams}

var workNames = [works]string{"flushes", "merges", "joins", "gatherings", "drops of value files", "rewrites of value files", "values streamed"}

// A workTally counts the work of any number of databases, so that a campaign can
// tell whether it came to what it is to put to the test.
type workTally [works]atomic.Int64

// note is Options.Events. All of it has been noted when Close returns.
func (w *workTally) note(e stoat.Event) {
	switch e := e.(type) {
	case stoat.FlushDone:
		w[flushes].Add(1)
	case stoat.CompactionDone:
		switch {
		case strings.Contains(e.Plan, "joined"):
			w[joins].Add(1)
		case strings.Contains(e.Plan, "gathered"):
			w[gatherings].Add(1)
		case strings.Contains(e.Plan, "merged"):
			w[merges].Add(1)
		}
	case stoat.CollectionDone:
		if e.OutputBytes > 0 {
			w[rewrites].Add(1)
		} else {
			w[drops].Add(1)
		}
	}
}

func (w *workTally) add(o *workTally) {
	for i := range w {
		w[i].Add(o[i].Load())
	}
}

// lacks returns an error that names what has not been come to.
func (w *workTally) lacks(wanted ...work) error {
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

func (w *workTally) String() string {
	var all []string
	for k, name := range workNames {
		all = append(all, fmt.Sprintf("%d %s", w[k].Load(), name))
	}
	return strings.Join(all, ", ")
}
