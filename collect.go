package stoat

import (
	"errors"
	"fmt"
	stditer "iter"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat/internal/base"
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

// pickCollection returns what is most worth collecting.
func (d *DB) pickCollection(pressure values.Pressure) (values.Choice, bool) {
	state := d.manifest.State()
	files := make([]values.FileState, 0, len(state.Version.Values))
	for _, v := range state.Version.Values {
		files = append(files, values.FileState{Num: v.Num, Bytes: v.Bytes, Live: v.Live, Held: v.LastSeq > state.FlushedSeq})
	}
	return values.PickCollection(files, pressure)
}

// collect carries out a choice, unless stop returns an error. The caller holds
// compacting.
func (d *DB) collect(choice values.Choice, stop func() error) error {
	started := time.Now()
	old, ok := d.manifest.State().Version.Value(choice.Num)
	if !ok {
		return nil
	}
	edit := manifest.Edit{DropValues: []base.FileNum{choice.Num}}
	var made *manifest.ValueFile
	if !choice.Drop {
		var err error
		if made, err = d.rewriteValues(old.ValueFile, stop); err != nil {
			return fmt.Errorf("collect: %w", err)
		}
		edit = manifest.Edit{AddValues: []*manifest.ValueFile{made}}
	}
	if err := d.install(edit, nil); err != nil {
		if made != nil {
			d.removeFile(base.ValueName(made.File))
		}
		return fmt.Errorf("collect: %w", err)
	}
	d.discard(discarded{values: []base.FileNum{old.File}, bytes: old.Size})
	d.work.collected(made, time.Since(started))
	done := CollectionDone{InputBytes: old.Size, Took: time.Since(started)}
	if made != nil {
		done.OutputBytes = made.Size
	}
	d.emit(done)
	return nil
}

// rewriteValues copies what is live of a value file into a new one.
func (d *DB) rewriteValues(old *manifest.ValueFile, stop func() error) (made *manifest.ValueFile, err error) {
	files := tree.New(d.treeOptions())
	defer func() { err = errors.Join(err, files.Close()) }()
	source, err := files.OpenValues(old)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	num, out, err := d.newValueFile()
	if err != nil {
		return nil, err
	}
	view := files.View(referring(d.manifest.State().Version, old.Num), nil)
	props, err := values.Rewrite(values.RewriteJob{
		Source: source, Out: out, Salt: rand.Uint64(), Live: pointersInto(view, old.Num), Stop: func() error { return d.yield(stop) },
	})
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		d.removeFile(base.ValueName(num))
		return nil, err
	}
	return valueFileOf(props, num), nil
}

// referring returns the tables of v that refer to a value file, as a version.
func referring(v *manifest.Version, num base.FileNum) *manifest.Version {
	some := new(manifest.Version)
	for level, tables := range v.Levels {
		for _, t := range tables {
			for _, ref := range t.Values {
				if ref.File == num {
					some.Levels[level] = append(some.Levels[level], t)
				}
			}
		}
	}
	return some
}

// pointersInto yields what the tables of a view refer to in a value file, in
// the order of the keys.
func pointersInto(view *tree.View, num base.FileNum) stditer.Seq2[values.Live, error] {
	return func(yield func(values.Live, error) bool) {
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
			if err == nil && p.File != num {
				continue
			}
			if !yield(values.Live{Pointer: p, Key: e.Key, Seq: e.Seq}, err) || err != nil {
				return
			}
		}
		if err := all.Err(); err != nil {
			yield(values.Live{}, err)
		}
	}
}

// yield makes collection give way: while commits are being held up, it rests as
// long as it has worked.
func (d *DB) yield(stop func() error) error {
	if d.admission.nsPerKiB.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	return stop()
}
