package commit

import (
	"math"
	"slices"

	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/readset"
)

// A WriteSet is what a read-write transaction gathers. Later transactions reuse
// it.
type WriteSet struct {
	Pending *memtable.Table // the writes, under sequence number 0
	Adds    bool            // the transaction does not only delete
	Partial bool            // the transaction has written partial entries
	Large   int64           // bytes of values that may be written to value files
	// lapse is the first time at which a value expires that became a part of the writes, in
	// milliseconds of Unix time. 0 means never.
	lapse uint64
	// shrinkFrom is the size in bytes of Pending from which Shrink looks again.
	shrinkFrom int64
	Streams    []*place.Stream // values that were given as readers
	Reads      readset.Set
	Commits    uint   // counts commits, to measure some
	Key        []byte // memory for the stored form of a key
	// passages has what the transaction writes to each keyspace, but the default one, in the
	// order of the first writes. The last write went through the one at passing. If there are
	// many, places has their indexes.
	passages []Passage
	passing  int
	places   map[*Gate]int

	request Request
}

// Pass makes the commit of w go through g.
func (w *WriteSet) Pass(g *Gate) { w.PassAt(g, math.MaxUint64) }

// PassAt makes the commit of w go through g with a version at a timestamp.
func (w *WriteSet) PassAt(g *Gate, at uint64) {
	if w.passing >= len(w.passages) || w.passages[w.passing].Gate != g {
		w.passing = w.passage(g)
	}
	p := &w.passages[w.passing]
	p.Least = min(p.Least, at)
}

// passagesScanned is the number of passages up to which a scan finds one.
const passagesScanned = 16

// passage returns the index of the passage through g, which it adds if there is none.
func (w *WriteSet) passage(g *Gate) int {
	n := len(w.passages)
	if n <= passagesScanned {
		if i := slices.IndexFunc(w.passages, func(p Passage) bool { return p.Gate == g }); i >= 0 {
			return i
		}
	} else if i, ok := w.places[g]; ok {
		return i
	}
	w.passages = append(w.passages, Passage{g, math.MaxUint64})
	switch {
	case n > passagesScanned:
		w.places[g] = n
	case n == passagesScanned:
		w.places = make(map[*Gate]int, 2*passagesScanned)
		for i := range w.passages {
			w.places[w.passages[i].Gate] = i
		}
	}
	return n
}

// admitted returns an error if a gate of w refuses the commit.
func (w *WriteSet) admitted() error {
	for i := range w.passages {
		if err := w.passages[i].admitted(); err != nil {
			return err
		}
	}
	return nil
}

// LapsesAt makes the commit a conflict from a time on, in milliseconds of Unix time. A value
// expires then that became a part of the writes.
func (w *WriteSet) LapsesAt(ms uint64) {
	if w.lapse == 0 || ms < w.lapse {
		w.lapse = ms
	}
}

// NewWriteSet returns an empty write set.
func (c *Committer) NewWriteSet() *WriteSet {
	w, _ := c.writes.Get().(*WriteSet)
	if w == nil {
		w = new(WriteSet)
		w.request.ready = make(chan signal, 1)
	}
	if w.Pending == nil {
		w.Pending = c.store.Memory.NewPending()
	}
	return w
}

// FreeWriteSet takes back a write set.
func (c *Committer) FreeWriteSet(w *WriteSet) {
	if w.Pending != nil {
		w.Pending.Reset()
	}
	w.Reads.Reset()
	w.Large, w.Adds, w.Partial, w.lapse, w.shrinkFrom = 0, false, false, 0, 0
	clear(w.passages)
	w.passages, w.passing, w.places = w.passages[:0], 0, nil
	if cap(w.Key) > 1<<10 {
		w.Key = nil
	}
	c.o.Streams.Drop(w.Streams)
	clear(w.Streams)
	w.Streams = w.Streams[:0]
	w.request = Request{ready: w.request.ready}
	c.writes.Put(w)
}
