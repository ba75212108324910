package stoat

import (
	"errors"
	"fmt"
	stditer "iter"
	"math/rand/v2"
	"slices"
	"sync"
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
	if idle {
		return values.Idle
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
//
// Each file is exchanged as soon as its copy is durable, so that a collection
// of many needs no more space than one of few. What was found to be live
// stays so: until the caller lets go of compacting, no table changes.
func (d *DB) collect(choices []values.Choice, stop func() error) error {
	c := collection{db: d, stop: stop, started: time.Now()}
	err := c.run(d.manifest.State().Version, choices)
	if c.done.Files > 0 {
		c.done.Took = time.Since(c.started)
		d.work.collected(c.done.Files, c.done.OutputBytes, c.done.Took)
		d.admission.collected(c.done.InputBytes-c.done.OutputBytes, c.started)
		d.emit(c.done)
	}
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	return nil
}

// A collection is a collect under way.
type collection struct {
	db      *DB
	stop    func() error
	started time.Time
	live    map[base.FileNum]*liveValues

	mu     sync.Mutex // guards what follows
	queue  []*manifest.ValueFile
	done   CollectionDone
	failed error
}

// collectors is how many files are rewritten at once, so that the reading of
// one overlaps with the writing and the sync of another. Each takes two
// megabytes of buffers.
const collectors = 2

func (c *collection) run(v *manifest.Version, choices []values.Choice) error {
	var dead manifest.Edit
	gone := discarded{}
	for _, choice := range choices {
		old, ok := v.Value(choice.Num)
		invariant.Check(ok, "value file %d is to be collected and not there", choice.Num)
		if !choice.Drop {
			c.queue = append(c.queue, old.ValueFile)
			continue
		}
		dead.DropValues = append(dead.DropValues, old.Num)
		gone.values = append(gone.values, old.File)
		gone.bytes += old.Size
	}
	if len(gone.values) > 0 {
		if err := c.exchange(dead, gone, 0); err != nil {
			return err
		}
	}
	if len(c.queue) == 0 {
		return nil
	}
	var err error
	if c.live, err = c.db.liveIn(v, c.queue); err != nil {
		return err
	}
	var all sync.WaitGroup
	for range min(collectors, len(c.queue)) {
		all.Go(c.rewriteFiles)
	}
	all.Wait()
	return c.failed
}

// rewriteFiles exchanges files of the queue until there is none, or until one
// has failed.
func (c *collection) rewriteFiles() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 || c.failed != nil {
			c.mu.Unlock()
			return
		}
		old := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		if err := guard(func() error { return c.rewrite(old) }); err != nil {
			c.mu.Lock()
			c.failed = errors.Join(c.failed, err)
			c.mu.Unlock()
		}
	}
}

// rewrite copies what is live of a file into a new one, which takes its place.
func (c *collection) rewrite(old *manifest.ValueFile) error {
	made, err := c.db.rewriteFile(old, c.live[old.Num], c.stop)
	if err != nil {
		return err
	}
	err = c.exchange(manifest.Edit{AddValues: []*manifest.ValueFile{made}},
		discarded{values: []base.FileNum{old.File}, bytes: old.Size}, made.Size)
	if err != nil {
		c.db.removeFile(base.ValueName(made.File))
	}
	return err
}

// exchange installs an edit that lets go of files and brings so many bytes.
func (c *collection) exchange(edit manifest.Edit, gone discarded, made int64) error {
	if err := c.db.install(edit, nil); err != nil {
		return err
	}
	c.mu.Lock()
	c.done.Files += len(gone.values)
	c.done.InputBytes += gone.bytes
	c.done.OutputBytes += made
	c.mu.Unlock()
	c.db.discard(gone)
	return nil
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
		Source: source, Out: out, Salt: rand.Uint64(), Live: live.all(), Stop: stop,
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
