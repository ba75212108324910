package salvage

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/table"
)

// A Report says what was copied and what is lost.
type Report struct {
	// Manifest says that the manifest was whole and named the live files.
	Manifest bool
	// Tables, ValueFiles and Segments count the files that were read.
	Tables, ValueFiles, Segments int
	// Entries counts the copied versions of keys, and RangeTombstones the copied range
	// tombstones, in fragments. Values counts the values copied from value files.
	Entries, RangeTombstones, Values uint64
	// Lost lists what does not verify, at most lostMax parts. More counts the others.
	Lost []Loss
	More uint64
	// Notes tell what was restored without proof, such as the names of keyspaces.
	Notes []string
}

// lostMax is the maximum number of losses in a report.
const lostMax = 10_000

// notesMax is the maximum number of notes in a report.
const notesMax = 1_000

// A Loss is a part of a file that does not verify, or a file that is missing.
type Loss struct {
	// File is the name of the file. Offset is the place of the part, -1 if unknown, and
	// Length its length in bytes, 0 if unknown.
	File           string
	Offset, Length int64
	// From and To bound the keys of the lost entries, both inclusive. A zero Key is no
	// bound.
	From, To Key
	// Entries counts the lost entries, 0 if unknown.
	Entries uint64
	// Err says what is wrong.
	Err error

	from, to []byte // stored keys
}

// A Key is a key of a user in a keyspace. The default keyspace has no name.
type Key struct {
	Keyspace string
	Key      []byte
}

// lose adds a loss to the report.
func (r *Report) lose(l Loss) {
	if len(r.Lost) == lostMax {
		r.More++
		return
	}
	r.Lost = append(r.Lost, l)
}

// note adds a note to the report.
func (r *Report) note(text string) {
	if len(r.Notes) < notesMax {
		r.Notes = append(r.Notes, text)
	}
}

// loseFile notes that a file is lost, with keys in the given range.
func (r *Report) loseFile(name string, size int64, from, to []byte, err error) {
	r.lose(Loss{File: name, Offset: 0, Length: size, from: from, to: to, Err: base.InFile(err, name)})
}

// losePart notes that a part of a table is lost.
func (r *Report) losePart(name string, l table.Lost) {
	r.lose(Loss{File: name, Offset: l.Offset, Length: l.Length, from: l.From, to: l.To, Entries: l.Entries, Err: l.Err})
}

// resolve sets the keys of losses from the stored keys.
func (r *Report) resolve(spaces *spaces) {
	for i := range r.Lost {
		l := &r.Lost[i]
		l.From, l.To = spaces.keyOf(l.from), spaces.keyOf(l.to)
	}
}

// keyOf returns the user's key of a stored key.
func (s *spaces) keyOf(stored []byte) Key {
	if len(stored) == 0 {
		return Key{}
	}
	number, key, err := keyspace.Decode(stored)
	if err != nil {
		return Key{Key: bytes.Clone(stored)}
	}
	k := Key{Key: bytes.Clone(key)}
	if number == 0 {
		return k
	}
	m := s.named(number)
	k.Keyspace = m.Name
	if m.Timed() {
		if user, _, ok := stamp.Decode(key, nil); ok {
			k.Key = bytes.Clone(user)
		}
	}
	return k
}
