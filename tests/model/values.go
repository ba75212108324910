package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// valueKinds are the operations on values stored apart from their keys, and the calls
// that merge, join, gather and collect. The latter may change no answer.
var valueKinds = []opKind{
	{"set from a reader", 20, opSetReader},
	{"set from a reader that fails", 2, opSetFailingReader},
	{"read an item through its reader", 12, opItemReader},
	{"small value files, joined", 3, opJoin},
	{"values in the order of commits", 2, opScatter},
	{"compact", 3, func(r *Run, _ *rand.Rand) error { return r.Compact(stoat.CompactOptions{}) }},
	{"compact a range", 3, opCompactRange},
	{"collect", 3, OpCollect},
	{"checkpoint", 1, opCheckpoint},
}

// streamedFrom returns the length in bytes from which a value that is given as a reader gets
// a file of its own.
func (r *Run) streamedFrom() int { return int(min(1<<20, r.Opts.MemtableSize/4)) }

// readerLength draws the length of a value that is given as a reader. It is short, or about
// the length from which a value gets a file. Very long ones are rare.
func (r *Run) readerLength(rng *rand.Rand) int {
	from := r.streamedFrom()
	if rng.IntN(4) == 0 || from > testkit.SmallMemtable && rng.IntN(10) > 0 {
		return rng.IntN(2000)
	}
	switch rng.IntN(6) {
	case 0:
		return from - 1
	case 1:
		return from
	}
	return from + rng.IntN(from/4)
}

func opSetReader(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	return r.setReader(p, rng, r.readerLength(rng))
}

// setReader sets a key to a value of about n bytes that is given as a reader.
func (r *Run) setReader(p *Pair, rng *rand.Rand, n int) error {
	v := r.value(rng)
	v.Value += strings.Repeat("r", max(0, n-len(v.Value)))
	switch rng.IntN(6) {
	case 0:
		v.ExpiresAt = r.clock.Seen() + uint64(rng.IntN(40))
	case 1:
		v.User = byte(rng.Uint32())
	}
	key := r.keys.pick(rng)
	r.say("t%d.SetReader(%.40q, %.20q.. %d bytes, until %d)", p.name, key, v.Value, len(v.Value), v.ExpiresAt)
	r.Work.calls++
	if len(v.Value) >= r.streamedFrom() {
		r.Work.Tally[testkit.Streams].Add(1)
	}
	p.model.Write(key, v)
	return testkit.PutAs(testkit.ReaderShapes[rng.IntN(len(testkit.ReaderShapes))], p.Tx, model.Write{Key: key, Version: v})
}

// errReader is what a reader fails with.
var errReader = errors.New("the reader fails")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errReader }

// opSetFailingReader leaves the transaction as it was.
func opSetFailingReader(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	n := r.readerLength(rng)
	r.say("t%d.SetReader that fails after %d bytes", p.name, n)
	r.Work.calls++
	err = p.Tx.SetReader([]byte(r.keys.pick(rng)), io.MultiReader(strings.NewReader(strings.Repeat("f", n)), failingReader{}))
	if !errors.Is(err, errReader) {
		return fmt.Errorf("SetReader: %v, want the error of the reader", err)
	}
	return nil
}

// opItemReader reads a value through the reader of an item, all of it and a part.
func opItemReader(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	key := r.keys.pick(rng)
	return r.counted(func() error {
		item, err := p.Tx.GetItem([]byte(key))
		want, found := p.model.Get(key)
		r.say("t%d.GetItem(%.40q).Reader, %v", p.name, key, err)
		if !found || err != nil {
			return sameValue("", err, want, found)
		}
		reader, err := item.Reader()
		if err != nil {
			return err
		}
		got, err := io.ReadAll(reader)
		if err := sameValue(string(got), err, want, true); err != nil {
			return err
		}
		from := rng.IntN(len(got) + 1)
		part := make([]byte, rng.IntN(len(got)-from+1))
		if _, err := reader.Seek(int64(from-len(got)), io.SeekEnd); err != nil {
			return err
		}
		if _, err := io.ReadFull(reader, part); err != nil || !bytes.Equal(part, got[from:from+len(part)]) {
			return fmt.Errorf("%d bytes from %d on of a value of %d: %.40q, error %v", len(part), from, len(got), part, err)
		}
		return nil
	})
}

// opJoin commits values in files of their own, and mostly asks for a database of
// fewer files.
func opJoin(r *Run, rng *rand.Rand) error {
	if r.Opts.MemtableSize > testkit.SmallMemtable {
		return nil // they would be large
	}
	if err := r.SetReaders(rng); err != nil || rng.IntN(4) == 0 {
		return err
	}
	return r.Compact(stoat.CompactOptions{})
}

// SetReaders commits values that are given as readers.
func (r *Run) SetReaders(rng *rand.Rand) error {
	p, err := r.Begin(true)
	if err != nil {
		return err
	}
	for range 8 {
		if err := r.setReader(p, rng, r.streamedFrom()+rng.IntN(1<<10)); err != nil {
			return err
		}
	}
	return r.commit(p, 0)
}

// opScatter leaves values in disorder, and often asks for their order.
func opScatter(r *Run, rng *rand.Rand) error {
	if err := r.Scatter(rng); err != nil || rng.IntN(2) == 0 {
		return err
	}
	return r.Compact(stoat.CompactOptions{})
}

// Scatter commits values apart from their keys, in another order than that of the
// keys, and more than a small memtable holds.
func (r *Run) Scatter(rng *rand.Rand) error {
	for range 5 {
		p, err := r.Begin(true)
		if err != nil {
			return err
		}
		for range 24 {
			v := r.value(rng)
			v.Value += strings.Repeat("s", 600+rng.IntN(900))
			if err := r.Write(p, r.keys.pick(rng), v); err != nil {
				return err
			}
		}
		if err := r.commit(p, stoat.Buffered); err != nil {
			return err
		}
	}
	return nil
}

// Compact compacts the database.
func (r *Run) Compact(o stoat.CompactOptions) error {
	r.say("compact from %.40q to %.40q", o.Lower, o.Upper)
	r.Work.calls++
	if err := r.DB.Compact(context.Background(), o); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

func opCompactRange(r *Run, rng *rand.Rand) error {
	lo, hi := []byte(r.keys.near(rng)), []byte(r.keys.near(rng))
	switch c := bytes.Compare(lo, hi); {
	case c > 0:
		lo, hi = hi, lo
	case c == 0:
		hi = nil
	}
	return r.Compact(stoat.CompactOptions{Keyspace: r.spaces.home, Lower: lo, Upper: hi})
}

// OpCollect collects garbage and demands no error.
func OpCollect(r *Run, _ *rand.Rand) error {
	r.say("collect")
	r.Work.calls++
	if err := r.DB.Collect(context.Background()); err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	return nil
}

// opCheckpoint makes a copy, opens it, and removes it.
func opCheckpoint(r *Run, _ *rand.Rand) error {
	if err := r.settle(); err != nil {
		return err
	}
	r.values++
	dir := fmt.Sprintf("/copy-%d", r.values)
	r.say("checkpoint at %d", r.known)
	r.Work.calls++
	if err := r.DB.Checkpoint(context.Background(), dir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	disk := r.FS.Clone()
	if err := removeDir(r.FS, dir); err != nil {
		return err
	}
	opts := r.Opts
	opts.FS, opts.Events, opts.Clock = disk, nil, &testkit.Clock{}
	opts.Clock.(*testkit.Clock).Ms.Store(int64(r.clock.Seen()))
	db, err := stoat.Open(dir, &opts)
	if err != nil {
		return fmt.Errorf("open the checkpoint: %w", err)
	}
	var home *stoat.Keyspace
	if r.home != "" {
		if home, err = db.Keyspace(r.home, nil); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	err = db.View(func(tx stoat.Txn) error {
		if v := tx.ReadVersion(); v < r.known || v > r.Model.Last() {
			return fmt.Errorf("checkpoint of commit %d, want %d to %d", v, r.known, r.Model.Last())
		}
		return testkit.Compare(tx.In(home), r.Model, r.clock.Seen())
	})
	if err == nil {
		_, err = db.Check(context.Background(), stoat.CheckOptions{})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// removeDir removes a directory of files.
func removeDir(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fs.Remove(fs.Join(dir, name)); err != nil {
			return err
		}
	}
	return fs.Remove(dir)
}
