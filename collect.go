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
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
)

// Collection gives back the space of values that no table refers to any more.
// It rewrites a value file under the same identity, so that neither tables nor
// pointers change: one edit of the manifest exchanges the file. Nothing passes
// the write path, so that no collection can bring a deleted key back.
//
// Collection and compaction go on side by side. What a collection finds to be
// live in the tables of one version can only become less: a compaction takes
// references along or away, and no flush adds any, since files that memtables
// refer to are left alone. What was copied and is garbage by the time that the
// file is exchanged counts as garbage of the new one.

// collect carries out choices, unless stop returns an error. The caller holds
// collecting.
//
// Each file is exchanged as soon as its copy is durable, so that a collection
// of many needs no more space than one of few.
func (d *DB) collect(choices []values.Choice, stop func() error) error {
	c := collection{db: d, stop: stop, started: time.Now()}
	d.at(pointPicked)
	err := c.run(choices)
	if c.done.Files > 0 {
		c.done.Took = time.Since(c.started)
		d.work.collected(c.done.Files, c.done.OutputBytes, c.done.Took)
		d.admission.collected(c.done.InputBytes-c.done.OutputBytes, c.done.InputBytes, c.started)
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
// megabytes of buffers. On a disk that is low it is one.
const collectors = 2

func (c *collection) run(choices []values.Choice) error {
	v := c.db.manifest.State().Version
	var dead manifest.Edit
	var gone []relic
	for _, choice := range choices {
		old, ok := v.Value(choice.Num)
		invariant.Check(ok, "value file %d is to be collected and not there", choice.Num)
		if !choice.Drop {
			c.queue = append(c.queue, old.ValueFile)
			continue
		}
		dead.DropValues = append(dead.DropValues, old.Num)
		gone = append(gone, relicOfValues(old.ValueFile))
	}
	if len(gone) > 0 {
		if err := c.exchange(dead, gone, 0); err != nil {
			return err
		}
	}
	if len(c.queue) == 0 {
		return nil
	}
	if err := c.findLive(); err != nil {
		return err
	}
	if c.db.driver != nil {
		c.rewriteFiles() // who drives has one thread
		return c.failed
	}
	var all sync.WaitGroup
	for range min(c.db.room.collectors(), len(c.queue)) {
		all.Go(c.rewriteFiles)
	}
	all.Wait()
	return c.failed
}

// findLive finds what is live in the files of the queue. Those to which a table
// refers that cannot be read leave it: nobody knows what is live in them. So do
// those for which memory is short: they are chosen again.
func (c *collection) findLive() (err error) {
	for len(c.queue) > 0 {
		if c.live, err = c.db.liveIn(c.queue, liveBytes, c.stop); err == nil {
			c.queue = slices.DeleteFunc(c.queue, func(f *manifest.ValueFile) bool { return c.live[f.Num] == nil })
			return nil
		}
		others := c.db.bad.referredTo(c.queue, c.db.manifest.State().Version, err)
		if len(others) == len(c.queue) {
			return err
		}
		c.queue = others
		c.db.backgroundFailed(fmt.Errorf("collect: %w", err))
	}
	return nil
}

// rewriteFiles exchanges files of the queue until there is none, or until it
// has failed. A file that cannot be read does not keep it from the others.
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
		err := guard(func() error { return c.rewrite(old) })
		if f, ok := c.db.manifest.State().Version.Value(old.Num); ok {
			c.db.room.copied(f.Live, err)
		}
		if c.db.bad.note(old, err) {
			c.db.backgroundFailed(fmt.Errorf("collect: %w", err))
		} else if err != nil {
			c.mu.Lock()
			c.failed = errors.Join(c.failed, err)
			c.mu.Unlock()
		}
	}
}

// rewrite copies what is live of a file into a new one, which takes its place.
func (c *collection) rewrite(old *manifest.ValueFile) error {
	made, err := c.db.rewriteFile(old, c.live[old.Num], c.stop)
	if errors.Is(err, values.ErrNothingLive) && c.db.unreferenced(old.Num) {
		// A compaction has let go of the rest since the file was chosen.
		return c.exchange(manifest.Edit{DropValues: []base.FileNum{old.Num}}, []relic{relicOfValues(old)}, 0)
	}
	if err != nil {
		return err
	}
	err = c.exchange(manifest.Edit{AddValues: []*manifest.ValueFile{made}}, []relic{relicOfValues(old)}, made.Size)
	if err != nil {
		c.db.removeFile(base.ValueName(made.File))
	}
	if mutant.On(mutant.WriteBack) {
		err = c.live[old.Num].writeBack(c.db)
	}
	return err
}

// unreferenced reports whether no table refers to a value file.
func (d *DB) unreferenced(n base.FileNum) bool {
	f, ok := d.manifest.State().Version.Value(n)
	return ok && f.Live == 0
}

// exchange installs an edit that lets go of files and brings so many bytes.
func (c *collection) exchange(edit manifest.Edit, gone []relic, made int64) error {
	if err := c.db.install(edit, nil); err != nil {
		return err
	}
	c.mu.Lock()
	c.done.Files += len(gone)
	for i := range gone {
		c.done.InputBytes += gone[i].bytes
	}
	c.done.OutputBytes += made
	c.mu.Unlock()
	c.db.discard(gone)
	return nil
}

// rewriteFile writes what is live of a file into a new one. Nothing is left of
// that after an error, nor after a fault in the mapping of the old one.
func (d *DB) rewriteFile(old *manifest.ValueFile, live *liveValues, stop func() error) (made *manifest.ValueFile, err error) {
	source, err := d.tables.OpenValues(old)
	if err != nil {
		return nil, err
	}
	num, out, err := d.newValueFile()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	defer func() {
		if err = errors.Join(err, out.Close(), source.Close()); err != nil || made == nil {
			made = nil
			d.removeFile(base.ValueName(num))
		}
	}()
	props, err := values.Rewrite(values.RewriteJob{
		Source: source, Out: out, Salt: rand.Uint64(), Live: live.all(), Stop: stop,
	})
	if err != nil {
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

// liveOverhead is what a liveValues takes for each value beside its key: a pointer,
// a version and an end.
const liveOverhead = 32 + 8 + 8

// bytes is about how much memory it takes.
func (l *liveValues) bytes() int { return len(l.keys) + len(l.pointers)*liveOverhead }

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

// writeBack is what a mutant does with values that were live once.
func (l *liveValues) writeBack(d *DB) error {
	return d.Update(func(tx *Txn) error {
		for live := range l.all() {
			r, err := tx.view.tree.Values(live.Pointer.File)
			if err != nil {
				return err
			}
			value, err := r.Get(live.Pointer, live.Key, live.Seq, &tx.decoded)
			if err == nil {
				err = tx.Set(live.Key, value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// liveBytes bounds the memory that liveIn takes, unless one file alone takes more.
const liveBytes = 64 << 20

// walkStep is how many bytes of keys and values a walk passes over before it looks
// again whether to go on.
const walkStep = 256 << 10

// liveIn walks over all tables that refer to some value files, unless stop
// returns an error. It reads them through readers of its own, by large reads, and
// in the slot of a reader: the tables stay although they are replaced meanwhile.
// If what is live in the files takes more than most bytes, the last ones are left
// out.
func (d *DB) liveIn(of []*manifest.ValueFile, most int, stop func() error) (live map[base.FileNum]*liveValues, err error) {
	if err = stop(); err != nil {
		return nil, err
	}
	slot, state, err := d.holdState()
	if err != nil {
		return nil, err
	}
	defer d.release(slot)
	v := state.Version
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
	memory, unlooked := 0, walkStep
	var all iter.Visible
	all.Init(inputs, false, nil, nil, iter.Snapshot{At: base.SeqNumMax, AllVersions: true})
	for ok := all.Seek(nil); ok; ok = all.Next() {
		e := &all.Entry
		if unlooked -= len(e.Key) + len(e.Value); unlooked < 0 {
			unlooked = walkStep
			if err := stop(); err != nil {
				return nil, err
			}
		}
		if e.Meta.Kind != base.KindPointer {
			continue
		}
		p, err := values.DecodePointer(e.Value)
		if err != nil {
			return nil, err
		}
		if l := live[p.File]; l != nil {
			l.add(p, e.Key, e.Seq)
			memory += len(e.Key) + liveOverhead
		}
		for memory > most && len(of) > 1 {
			out := of[len(of)-1].Num
			memory -= live[out].bytes()
			delete(live, out)
			of = of[:len(of)-1]
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
