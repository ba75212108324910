package tree

import "github.com/stoatdb/stoat/internal/values"

// Fetch reads and verifies the values of many entries of base.KindPointer; see
// values.Fetch. The zero value is ready for Init.
type Fetch struct {
	files  lastFile
	values values.Fetch
}

// Init makes it read from the value files of v.
func (f *Fetch) Init(v *View) { f.files = lastFile{view: v} }

// Add adds the value of an entry. View.Value reports what is wrong with the pointer.
func (f *Fetch) Add(pointer []byte) {
	if r, p := f.files.find(pointer); r != nil {
		f.values.Add(r, &p)
	}
}

// Bytes returns the length of what it has to read.
func (f *Fetch) Bytes() int64 { return f.values.Bytes() }

// Run reads and verifies the values, and forgets the entries.
func (f *Fetch) Run() { f.values.Run() }
