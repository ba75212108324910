package manifest

import (
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// LoadDamaged reads the edits of the newest manifest up to the first that does not verify.
// It changes nothing. err is nil if the state is that of the whole manifest. Otherwise
// the state is an earlier one, or empty, and err tells why.
func LoadDamaged(fs vfs.FS, dir string, seal record.Sealer) (state State, err error) {
	l, err := list(fs, dir)
	if err != nil {
		return State{}, err
	}
	if len(l.manifests) == 0 {
		return State{}, l.missing(dir)
	}
	number := l.newest()
	f, err := fs.Open(fs.Join(dir, FileName(number)), vfs.CatManifest)
	if err != nil {
		return State{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	h, aead, err := readHeader(f, number, seal)
	if err == nil {
		state, err = readEdits(record.NewReader(f, h.Size, h.Salt, aead))
	}
	return state, base.InFile(err, FileName(number))
}

// readEdits applies the edits of r, up to the first bad one.
func readEdits(r *record.Reader) (state State, err error) {
	for first := true; ; first = false {
		r.Demand(first)
		rec, err := nextRecord(r, first)
		switch {
		case err == io.EOF:
			return state, nil
		case err != nil:
			return state, err
		case rec.Kind == record.Mark:
			continue
		}
		e, err := DecodeEdit(rec.Payload)
		if err != nil {
			return state, err
		}
		next, err := state.Apply(e)
		if err != nil {
			return state, base.Corrupt(rec.Offset, "edit", err, "an edit that can follow")
		}
		state = next
	}
}
