package stoat

import (
	"errors"
	"fmt"
	stditer "iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
)

// Collection gives back the space of values that no table refers to any more.
// It rewrites a value file under the same identity, so that neither tables nor
// pointers change: one edit of the manifest exchanges the file. Nothing passes
// the write path, so that no collection can bring a deleted key back.
//
// It is the compactor's work as well: while it reads from the tables what is
// live in a file, no compaction takes references away, and no flush adds any,
// since files that memtables refer to are left alone.

// pressure says how much else there is to do.
func (d *DB) pressure(idle bool) values.Pressure {
	switch {
	case idle:
		return values.Idle
	case d.admission.nsPerKiB.Load() > 0:
		return values.Strained
	}
	return values.Busy
}

// collectBytes is about how much one collection copies: what is live in several
// files is found by one walk over the tables that refer to them.
const collectBytes = 64 << 20

// pickCollection returns what is most worth collecting.
func (d *DB) pickCollection(pressure values.Pressure) []values.Choice {
	state := d.manifest.State()
	files := make([]values.FileState, 0, len(state.Version.Values))
	for _, v := range state.Version.Values {
		files = append(files, values.FileState{Num: v.Num, Bytes: v.Bytes, Live: v.Live, Held: d.valuesHeld(v.ValueFile, state.FlushedSeq)})
	}
	var choices []values.Choice
	for copied := uint64(0); copied < collectBytes; {
		c, due := values.PickCollection(files, pressure)
		if !due {
			break
		}
		choices = append(choices, c)
		copied += c.Copy
		i := slices.IndexFunc(files, func(f values.FileState) bool { return f.Num == c.Num })
		if c.Drop {
			files = slices.Delete(files, i, i+1)
		} else {
			files[i].Bytes = files[i].Live
		}
	}
	return choices
}

// valuesHeld reports whether more than the tables may refer to a value file.
func (d *DB) valuesHeld(v *manifest.ValueFile, flushed base.SeqNum) bool {
	return v.LastSeq > flushed || d.apart.held(v.Num, flushed)
}

// collect carries out choices, unless stop returns an error. The caller holds
// compacting.
func (d *DB) collect(choices []values.Choice, stop func() error) error {
	started := time.Now()
	version := d.manifest.State().Version
	var edit manifest.Edit
	var done CollectionDone
	gone := discarded{}
	var rewrite []*manifest.ValueFile
	for _, c := range choices {
		old, ok := version.Value(c.Num)
		invariant.Check(ok, "value file %d is to be collected and not there", c.Num)
		if gone.values = append(gone.values, old.File); c.Drop {
			edit.DropValues = append(edit.DropValues, c.Num)
		} else {
			rewrite = append(rewrite, old.ValueFile)
		}
		gone.bytes += old.Size
	}
	made, err := d.rewriteValues(version, rewrite, stop)
	if err == nil {
		edit.AddValues = made
		err = d.install(edit, nil)
	}
	if err != nil {
		for _, f := range made {
			d.removeFile(base.ValueName(f.File))
		}
		return fmt.Errorf("collect: %w", err)
	}
	d.discard(gone)
	for _, f := range made {
		done.OutputBytes += f.Size
	}
	done.Files, done.InputBytes, done.Took = len(choices), gone.bytes, time.Since(started)
	d.work.collected(len(choices), done.OutputBytes, done.Took)
	d.emit(done)
	return nil
}

// rewriteValues copies what is live of value files into new ones. It returns
// those that it made, also with an error.
func (d *DB) rewriteValues(v *manifest.Version, old []*manifest.ValueFile, stop func() error) (made []*manifest.ValueFile, err error) {
	if len(old) == 0 {
		return nil, nil
	}
	live, err := d.liveIn(v, old)
	for i := 0; err == nil && i < len(old); i++ {
		var f *manifest.ValueFile
		if f, err = d.rewriteFile(old[i], live[old[i].Num], stop); err == nil {
			made = append(made, f)
		}
	}
	return made, err
}

func (d *DB) rewriteFile(old *manifest.ValueFile, live *liveValues, stop func() error) (*manifest.ValueFile, error) {
	source, err := d.tables.OpenValues(old)
	if err != nil {
		return nil, err
	}
	num, out, err := d.newValueFile()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	props, err := values.Rewrite(values.RewriteJob{
		Source: source, Out: out, Salt: rand.Uint64(), Live: live.all(), Stop: func() error { return d.yield(stop) },
	})
	if err = errors.Join(err, out.Close(), source.Close()); err != nil {
		d.removeFile(base.ValueName(num))
		return nil, err
	}
	return valueFileOf(props, num), nil
}

// liveValues is what tables refer to in one value file, in the order of the
// keys.
type liveValues struct {
	pointers []values.Pointer
	seqs     []base.SeqNum
	keys     []byte
	keyEnds  []int
}

func (l *liveValues) add(p values.Pointer, key []byte, seq base.SeqNum) {
	l.pointers, l.seqs = append(l.pointers, p), append(l.seqs, seq)
	l.keys = append(l.keys, key...)
	l.keyEnds = append(l.keyEnds, len(l.keys))
}

func (l *liveValues) all() stditer.Seq2[values.Live, error] {
	return func(yield func(values.Live, error) bool) {
		from := 0
		for i, end := range l.keyEnds {
			if !yield(values.Live{Pointer: l.pointers[i], Key: l.keys[from:end], Seq: l.seqs[i]}, nil) {
				return
			}
			from = end
		}
	}
}

// liveIn walks over all tables that refer to some value files. It reads them
// through readers of its own, by large reads.
func (d *DB) liveIn(v *manifest.Version, of []*manifest.ValueFile) (live map[base.FileNum]*liveValues, err error) {
	live = make(map[base.FileNum]*liveValues, len(of))
	for _, f := range of {
		live[f.Num] = new(liveValues)
	}
	files := tree.New(d.treeOptions())
	defer func() { err = errors.Join(err, files.Close()) }()
	view := files.View(referring(v, live), nil)
	levels := make([]tree.Iter, view.Depth())
	inputs := make([]iter.Input, len(levels))
	for i := range levels {
		levels[i].Init(view, i, table.IterOptions{Unmapped: true})
		inputs[i].Source = &levels[i]
	}
	var all iter.Visible
	all.Init(inputs, false, nil, nil, iter.Snapshot{At: base.SeqNumMax, AllVersions: true})
	for ok := all.Seek(nil); ok; ok = all.Next() {
		e := &all.Entry
		if e.Meta.Kind != base.KindPointer {
			continue
		}
		p, err := values.DecodePointer(e.Value)
		if err != nil {
			return nil, err
		}
		if l := live[p.File]; l != nil {
			l.add(p, e.Key, e.Seq)
		}
	}
	return live, all.Err()
}

// referring returns the tables of v that refer to one of some value files, as a
// version.
func referring(v *manifest.Version, to map[base.FileNum]*liveValues) *manifest.Version {
	some := new(manifest.Version)
	for level, tables := range v.Levels {
		for _, t := range tables {
			if slices.ContainsFunc(t.Values, func(ref manifest.ValueRef) bool { return to[ref.File] != nil }) {
				some.Levels[level] = append(some.Levels[level], t)
			}
		}
	}
	return some
}

// yield makes collection give way: while commits are being held up, it rests as
// long as it has worked.
func (d *DB) yield(stop func() error) error {
	if d.admission.nsPerKiB.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	return stop()
}
