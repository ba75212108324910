package tree

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/values"
)

// Fetch reads and verifies the values of many entries of base.KindPointer; see
// values.Fetch. The zero value is ready for Init.
type Fetch struct {
	view   *View
	num    base.FileNum
	reader *values.Reader // of file num; nil when there is none yet
	values values.Fetch
}

// Init makes it read from the value files of v.
func (f *Fetch) Init(v *View) { f.view, f.reader = v, nil }

// Add adds the value of an entry. View.Value reports what is wrong with the pointer.
func (f *Fetch) Add(pointer []byte) {
	p, err := values.DecodePointer(pointer)
	if err != nil {
		return
	}
	if f.reader == nil || p.File != f.num {
		r, err := f.view.Values(p.File)
		if err != nil {
			return
		}
		f.reader, f.num = r, p.File
	}
	f.values.Add(f.reader, &p)
}

// Bytes returns the length of what it has to read.
func (f *Fetch) Bytes() int64 { return f.values.Bytes() }

// Run reads and verifies the values, and forgets the entries.
func (f *Fetch) Run() { f.values.Run() }
