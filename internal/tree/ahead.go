package tree

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
)

// A Prepared is the lookups of one key in a table.Ahead.
type Prepared struct{ from, to int }

// Prepare adds the lookups by which Get would find a key to a, which has room for Depth
// more. It reports false if it cannot open a table: Get reports why.
func (v *View) Prepare(a *table.Ahead, key []byte, hash uint64, at base.SeqNum) (p Prepared, ok bool) {
	p.from = a.Len()
	for i := range v.levels {
		if i < len(v.filters) && !v.filters[i].May(hash) {
			continue
		}
		r, err := v.levels[i].reader(v.files, key, at)
		if err != nil {
			return p, false
		}
		if r != nil {
			a.Add(r, hash)
		}
	}
	p.to = a.Len()
	return p, true
}

// GetPrepared is Get for a key whose lookups in a are p.
func (v *View) GetPrepared(a *table.Ahead, p Prepared, key []byte, at base.SeqNum, arena *codec.Arena) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	for i := p.from; i < p.to; i++ {
		value, m, seq, ok, err = a.Get(i, key, at, arena)
		if l := a.Deletions(i); l != nil && err == nil && hides(l, key, at, seq, ok) {
			return nil, base.Meta{}, 0, false, nil
		}
		if ok || err != nil {
			return
		}
	}
	return
}

// Ahead reads the values of several entries of base.KindPointer together; see
// values.Ahead. It remembers the last value file, because neighbouring entries
// often share one. The zero value is ready for Init.
type Ahead struct {
	view   *View
	num    base.FileNum
	reader *values.Reader // of file num; nil when there is none yet
	values values.Ahead
}

// All entries of one iterator round fit into one Ahead.
var _ [values.AheadSize - iter.RoundMax]struct{}

// Init makes it read from the value files of v.
func (a *Ahead) Init(v *View) { a.view, a.reader = v, nil }

// Clear releases the view.
func (a *Ahead) Clear() {
	a.view, a.reader = nil, nil
	a.values.Clear()
}

// Begin forgets all entries.
func (a *Ahead) Begin() { a.values.Begin() }

// Add adds an entry. The pointer is nil for an entry of another kind than
// base.KindPointer. The key must not change until Get has returned the value. View.Value
// reports an invalid pointer. Fetch.Add repeats these lines: a function for both made seeks
// over values 1.05 times slower.
func (a *Ahead) Add(pointer, key []byte, seq base.SeqNum) {
	if pointer == nil {
		a.values.Add(nil, nil, nil, 0)
		return
	}
	p, err := values.DecodePointer(pointer)
	if err != nil {
		a.values.Add(nil, nil, nil, 0)
		return
	}
	if a.reader == nil || p.File != a.num {
		r, err := a.view.Values(p.File)
		if err != nil {
			a.values.Add(nil, nil, nil, 0)
			return
		}
		a.reader, a.num = r, p.File
	}
	a.values.Add(a.reader, &p, key, seq)
}

// AddRound begins anew, and adds the entries of the round of v from number from up to n.
func (a *Ahead) AddRound(v *iter.Visible, from, n int) {
	a.Begin()
	for i := from; i < n; i++ {
		if e := v.InRound(i); e.Meta.Kind == base.KindPointer {
			a.Add(e.Value, e.Key, e.Seq)
		} else {
			a.Add(nil, nil, 0)
		}
	}
}

// Load finds the added values; see values.Ahead.Load.
func (a *Ahead) Load(fetch int) (missing int) { return a.values.Load(fetch) }

// LoadScan is Load for the next values of a scan; see values.Ahead.LoadScan.
func (a *Ahead) LoadScan(fetch int) (missing int) { return a.values.LoadScan(fetch) }

// Get returns the value of the i-th added entry. If it returns false, the caller must use
// View.Value.
func (a *Ahead) Get(i int, arena *codec.Arena) ([]byte, bool) { return a.values.Get(i, arena) }

// Found returns the value of the i-th added entry if Get needs no memory of the file to
// return it, and nil otherwise.
func (a *Ahead) Found(i int) []byte { return a.values.Found(i) }
