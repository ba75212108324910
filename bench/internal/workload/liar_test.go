package workload

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"io"
	"maps"
	"os"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// This file has the liar's features beside reads and writes of keys.

// Stream has the lies of Scan.
func (l *liar) Stream(fn func(key, value []byte) error) error {
	return l.Scan(stores.ScanOptions{}, fn)
}

// apply writes entries one by one, except those that leaveOut names.
func (l *liar) apply(entries stores.Entries, leaveOut func(key []byte) bool) error {
	b := stores.NewBatch(nil)
	for key, value := range entries {
		if leaveOut(key) {
			continue
		}
		b.Reset()
		b.Set(key, value)
		if err := l.Apply(b); err != nil {
			return err
		}
	}
	return nil
}

func nothing([]byte) bool          { return false }
func unlucky(key []byte) bool      { return key[KeySize-1] == '7' }
func (l *liar) lies(w string) bool { return l.wrong == w }

func (l *liar) Ingest(entries stores.Entries) error { return l.apply(entries, nothing) }

func (l *liar) WriteSorted(path string, entries stores.Entries) error {
	var all [][2][]byte
	for key, value := range entries {
		if !l.lies("loses a key of a file") || !unlucky(key) {
			all = append(all, [2][]byte{bytes.Clone(key), bytes.Clone(value)})
		}
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(all); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

func (l *liar) IngestFiles(paths []string) error {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var all [][2][]byte
		if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&all); err != nil {
			return err
		}
		err = l.apply(func(yield func(key, value []byte) bool) {
			for _, e := range all {
				if !yield(e[0], e[1]) {
					return
				}
			}
		}, nothing)
		if err != nil {
			return err
		}
	}
	return nil
}

// copied returns a copy of the data, with the lies of copies.
func (l *liar) copied() *liar {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &liar{data: maps.Clone(l.data)}
	for key, value := range c.data {
		switch {
		case !unlucky([]byte(key)):
		case l.lies("loses a key of a copy"):
			delete(c.data, key)
		case l.lies("turns a bit of a copy"):
			c.data[key] = bytes.Clone(value)
			c.data[key][len(value)/2] ^= 1
		}
	}
	return c
}

func (l *liar) Backup(w io.Writer) error { return gob.NewEncoder(w).Encode(l.copied().data) }

func (l *liar) Restore(_ stores.Config, r io.Reader) (stores.Store, error) {
	restored := &liar{}
	return restored, gob.NewDecoder(r).Decode(&restored.data)
}

func (l *liar) Checkpoint(dir string) error {
	if l.copies == nil {
		l.copies = map[string]*liar{}
	}
	l.copies[dir] = l.copied()
	return nil
}

func (l *liar) NewBulk() stores.Bulk { return liarBulk{l} }

type liarBulk struct{ *liar }

func (b liarBulk) Commit() error { return nil }

func (b liarBulk) Set(key, value []byte) error {
	one := func(yield func(key, value []byte) bool) { yield(key, value) }
	if b.lies("loses a key of a bulk") {
		return b.apply(one, unlucky)
	}
	return b.apply(one, nothing)
}

func (l *liar) GetMany(keys [][]byte, fn func(i int, value []byte) error) error {
	for i, key := range keys {
		if l.lies("mixes up the keys of many") {
			key = keys[len(keys)-1-i]
		}
		var value []byte
		_, err := l.Get(key, func(v []byte) error {
			value = bytes.Clone(v)
			return nil
		})
		if err != nil {
			return err
		}
		if l.lies("loses a key of many") && unlucky(key) {
			value = nil
		}
		if err := fn(i, value); err != nil {
			return err
		}
	}
	return nil
}

// Follow returns a follower that shows a copy of the last refresh.
func (l *liar) Follow() (stores.Follower, error) { return &liarFollower{liar: l.copied(), of: l}, nil }

type liarFollower struct {
	*liar
	of *liar
}

func (f *liarFollower) NewReader() (stores.Reader, error) { return f, nil }

func (f *liarFollower) Refresh() error {
	if f.of.lies("follower stands still") {
		return nil
	}
	f.liar = f.of.copied()
	return nil
}

// Get shows a version that nothing has written yet, if the follower runs ahead.
func (f *liarFollower) Get(key []byte, fn func([]byte) error) (bool, error) {
	if !f.of.lies("follower runs ahead") {
		return f.liar.Get(key, fn)
	}
	return f.liar.Get(key, func(value []byte) error {
		const versions = 1 << 20
		first := binary.LittleEndian.Uint64(value) + versions
		value = binary.LittleEndian.AppendUint64(nil, first)
		value = append(value, make([]byte, 112)...)
		return fn(binary.LittleEndian.AppendUint64(value, mix(first^gamma)))
	})
}
