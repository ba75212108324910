package collect

import (
	"bytes"
	"encoding/binary"
	"errors"
	stditer "iter"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
)

// A LiveSet is what tables refer to in some value files, as a walk over the tables has
// found it. If each file has values from all over the keys, a walk costs the same for one
// file as for many. So a walk covers as many files as there is memory for, and a collector
// keeps the LiveSet for its next batches. The zero value knows nothing.
//
// Until a file is rewritten, the values found live in it can only become fewer; see the
// package comment.
type LiveSet struct{ live map[base.FileNum]*liveValues }

// staleShare is a divisor. A LiveSet holds for a file while the bytes that became garbage
// since the walk are at most 1/staleShare of the live ones.
const staleShare = 32

// of returns those of the files for which s still holds in v.
func (s *LiveSet) of(files []*manifest.ValueFile, v *manifest.Version) (known []*manifest.ValueFile) {
	for _, f := range files {
		l := s.live[f.Num]
		now, ok := v.Value(f.Num)
		if !ok || l == nil || l.file != now.File {
			continue
		}
		if l.found <= now.Live+now.Live/staleShare {
			known = append(known, f)
		}
	}
	return known
}

// forget drops what s knows of files that are rewritten.
func (s *LiveSet) forget(files []*manifest.ValueFile) {
	for _, f := range files {
		delete(s.live, f.Num)
	}
}

// liveValues is what tables refer to in one value file.
type liveValues struct {
	file base.FileNum // the number in its name when that was found
	// entries are the values in the order of their keys. An entry is a pointer without a
	// version, three varints and the end of the key. The first varint is the version of the
	// record. The second is the length of the start that the key shares with the key
	// before. The third is the length of the end.
	entries []byte
	last    []byte // the key of the last of them
	found   uint64 // how many bytes of the file they keep alive

	// live is how many bytes of the file tables refer to. start is where a walk begins: it
	// expects no values of the file before this key. A nil start is before all keys. open
	// says that the walk has come to start and has not found all values.
	live  uint64
	start []byte
	open  bool
	known bool // an earlier walk has found all values
}

// liveEstimate is about how many bytes each value takes.
const liveEstimate = 32

// lacks reports whether tables refer to more than was found.
func (l *liveValues) lacks() bool { return l.found < l.live }

// complete returns an error unless the walk has found exactly what tables refer to. The
// copy would lose a value that the walk has missed, so such a file must stay as it is.
func (l *liveValues) complete() error {
	if l.found != l.live {
		return base.InFile(base.Corrupt(-1, "bytes found to be live", l.found, l.live), base.ValueName(l.file))
	}
	return nil
}

// bytes is about how much memory l takes.
func (l *liveValues) bytes() int { return len(l.entries) }

// add adds the value that p leads to, which is encoded in pointer.
func (l *liveValues) add(p values.Pointer, pointer, key []byte, seq base.SeqNum) {
	shared := base.CommonLen(key, l.last)
	b := append(l.entries, pointer[:values.PointerSize]...)
	b = binary.AppendUvarint(b, uint64(seq))
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	l.entries = append(b, key[shared:]...)
	l.last = append(l.last[:shared], key[shared:]...)
	l.found += values.RefBytes(p)
}

// all is values.RewriteJob.Live.
func (l *liveValues) all() stditer.Seq2[values.Live, error] {
	return func(yield func(values.Live, error) bool) {
		var key []byte
		for rest := l.entries; len(rest) > 0; {
			p, err := values.DecodePointer(rest[:values.PointerSize])
			rest = rest[values.PointerSize:]
			var numbers [3]uint64
			for i := range numbers {
				n := 0
				numbers[i], n = binary.Uvarint(rest)
				rest = rest[n:]
			}
			shared, more := numbers[1], numbers[2]
			key = append(key[:shared], rest[:more]...)
			rest = rest[more:]
			if !yield(values.Live{Pointer: p, Key: key, Seq: base.SeqNum(numbers[0])}, err) {
				return
			}
		}
	}
}

const (
	// liveBytes bounds the memory of what a walk finds, in bytes, unless one file alone
	// takes more. Where the budget is small, the bound is one of liveShare parts of the
	// budget, but at least liveBytesMin. A batch of values of half a kilobyte takes that
	// much.
	liveBytes    = 64 << 20
	liveBytesMin = 4 << 20
	liveShare    = 8
	// walkStep is how many bytes of keys and values a walk passes over between two checks
	// whether to go on.
	walkStep = 256 << 10
)

// LiveMax returns how many bytes of memory a walk may take for what it finds.
func (c *Collector) LiveMax() int {
	return int(min(liveBytes, max(liveBytesMin, c.o.MemoryBudget/liveShare)))
}

// liveIn walks over the tables that refer to some value files, unless stop returns an
// error. It reads them through readers of its own, by large reads, and in the slot of a
// reader. So the tables stay although a job replaces them meanwhile. If what is live in the
// files takes more than most bytes, the last ones are left out.
func (c *Collector) liveIn(of []*manifest.ValueFile, most int, stop func() error) (live map[base.FileNum]*liveValues, err error) {
	slot, held, err := c.store.HoldFiles()
	if err != nil {
		return nil, err
	}
	defer c.store.Release(slot)
	v := held.Version
	w := walk{of: of, live: make(map[base.FileNum]*liveValues, len(of)), most: most, stop: stop}
	for _, f := range of {
		if err := stop(); err != nil {
			return nil, err
		}
		now, _ := v.Value(f.Num)
		w.live[f.Num] = &liveValues{file: f.File, live: now.Live, start: c.firstKey(f)}
	}
	files := tree.New(c.o.Unmapped)
	defer func() { err = errors.Join(err, files.Close()) }()
	view := files.View(referring(v, w.live), nil)
	for again := true; again; again = w.restart() {
		if err := w.through(view); err != nil {
			return nil, err
		}
	}
	return w.live, nil
}

// firstKey returns a key before which probably no key has a value in f: all files are
// written in the order of keys. It reads little, so the walk must find out if that is wrong.
func (c *Collector) firstKey(f *manifest.ValueFile) []byte {
	r, err := c.store.Files().OpenValues(f)
	if err != nil {
		return nil // the copy of the file reports the error
	}
	key, err := r.FirstKey()
	if errors.Join(err, r.Close()) != nil {
		return nil
	}
	return key
}

// A walk looks through tables for what they refer to in some value files. It knows how
// many bytes that is for each file, so it can tell when it has found all of them. It reads
// only the key ranges of the files, each from the first key to the last live one.
type walk struct {
	of           []*manifest.ValueFile
	live         map[base.FileNum]*liveValues
	memory, most int
	open         int // how many of them are open
	stop         func() error
	unlooked     int
	repeats      values.Repeats
}

// through goes through the tables of a view once.
func (w *walk) through(view *tree.View) error {
	levels := make([]tree.Iter, view.Depth())
	inputs := make([]iter.Input, len(levels))
	for i := range levels {
		levels[i].Init(view, i, table.IterOptions{KeysOnly: true, Unmapped: true})
		inputs[i].Source = &levels[i]
	}
	var all iter.Visible
	all.Init(inputs, false, nil, nil, iter.Snapshot{At: base.SeqNumMax, AllVersions: true})
	w.repeats = values.Repeats{}
	waiting := w.lacking()
	for len(waiting) > 0 || w.open > 0 {
		ok := false
		if w.open > 0 {
			ok = all.Next()
		} else {
			ok = all.Seek(waiting[0].start) // behind all that was shown
		}
		if !ok {
			break
		}
		if err := w.look(all.Entry); err != nil {
			return err
		}
		for len(waiting) > 0 && bytes.Compare(waiting[0].start, all.Entry.Key) <= 0 {
			w.setOpen(waiting[0], waiting[0].lacks())
			waiting = waiting[1:]
		}
		if err := w.note(all.Entry); err != nil {
			return err
		}
	}
	return all.Err()
}

// lacking returns what is still to be found, in the order in which the walk comes
// to it.
func (w *walk) lacking() []*liveValues {
	var files []*liveValues
	for _, l := range w.live {
		if l.lacks() {
			files = append(files, l)
		}
	}
	slices.SortFunc(files, func(a, b *liveValues) int { return bytes.Compare(a.start, b.start) })
	return files
}

// look finds out now and then whether to go on.
func (w *walk) look(passed *base.Entry) error {
	if w.unlooked -= len(passed.Key) + len(passed.Value); w.unlooked >= 0 {
		return nil
	}
	w.unlooked = walkStep
	return w.stop()
}

// note notes what an entry refers to.
func (w *walk) note(e *base.Entry) error {
	if e.Meta.Kind != base.KindPointer {
		return nil
	}
	p, err := values.DecodePointer(e.Value)
	if err != nil {
		return err
	}
	repeated := w.repeats.Next(e.Value)
	l := w.live[p.File]
	if l == nil || l.known || repeated {
		return nil
	}
	before := l.bytes()
	l.add(p, e.Value, e.Key, p.Of(e.Seq))
	w.memory += l.bytes() - before
	w.setOpen(l, l.open && l.lacks())
	for w.memory > w.most && len(w.of) > 1 {
		w.leaveOut(w.of[len(w.of)-1].Num)
		w.of = w.of[:len(w.of)-1]
	}
	return nil
}

func (w *walk) leaveOut(n base.FileNum) {
	l := w.live[n]
	delete(w.live, n)
	w.memory -= l.bytes()
	l.live = 0 // it may still be waiting
	w.setOpen(l, false)
}

func (w *walk) setOpen(l *liveValues, open bool) {
	switch {
	case open && !l.open:
		w.open++
	case l.open && !open:
		w.open--
	}
	l.open = open
}

// restart prepares for another walk, from the first key on. The walk is for files that have
// values of keys before the one that they seemed to begin with. It reports false if there
// are none.
func (w *walk) restart() bool {
	some := false
	for _, l := range w.live {
		w.setOpen(l, false)
		l.known = !l.lacks()
		if l.lacks() && l.start != nil {
			w.memory -= l.bytes()
			l.start, l.entries, l.last, l.found, some = nil, nil, nil, 0, true
		}
	}
	return some
}

// referring returns the tables of v that refer to one of some value files, as a
// version.
func referring(v *manifest.Version, to map[base.FileNum]*liveValues) *manifest.Version {
	some := new(manifest.Version)
	for level, tables := range v.Levels {
		for _, t := range tables {
			for ref := range t.Values.All() {
				if to[ref.File] != nil {
					some.Levels[level] = append(some.Levels[level], t)
					break
				}
			}
		}
	}
	return some
}
