package tree

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/values"
)

// Ahead looks for the values of several entries of base.KindPointer together,
// see values.Ahead. It remembers the value file that it looked in last, as
// neighbours often have their values in one. Its zero value is ready for Init.
type Ahead struct {
	view   *View
	num    base.FileNum
	reader *values.Reader // of file num; nil when there is none yet
	values values.Ahead
}

// A round of an iterator can be looked for together.
var _ [values.AheadSize - iter.RoundMax]struct{}

// Init makes it look in the value files of v.
func (a *Ahead) Init(v *View) { a.view, a.reader = v, nil }

// Clear lets go of the view.
func (a *Ahead) Clear() {
	a.view, a.reader = nil, nil
	a.values.Clear()
}

// Begin forgets the entries of before.
func (a *Ahead) Begin() { a.values.Begin() }

// Add adds an entry. One of another kind than base.KindPointer has a nil
// pointer. A pointer that is no good is left to View.Value to report.
func (a *Ahead) Add(pointer []byte, keyLen int) {
	if pointer == nil {
		a.values.Add(nil, values.Pointer{}, keyLen)
		return
	}
	p, err := values.DecodePointer(pointer)
	if err != nil {
		a.values.Add(nil, p, keyLen)
		return
	}
	if a.reader == nil || p.File != a.num {
		r, err := a.view.Values(p.File)
		if err != nil {
			a.values.Add(nil, p, keyLen)
			return
		}
		a.reader, a.num = r, p.File
	}
	a.values.Add(a.reader, p, keyLen)
}

// Load looks for what was added; see values.Ahead.Load.
func (a *Ahead) Load(fetch int) { a.values.Load(fetch) }

// Get returns the value of the entry that was added as the i-th, whose key and
// version are given, or false where View.Value has to be asked.
func (a *Ahead) Get(i int, key []byte, seq base.SeqNum, arena *codec.Arena) ([]byte, bool) {
	return a.values.Get(i, key, seq, arena)
}
