package stoat

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
	"github.com/stoatdb/stoat/vfs"
)

// garbage is what no new reader can reach, while readers that began before may
// still use it: memtables that were flushed, files that were replaced. A reader
// keeps of it what its view has, and not what came and went since; see reader.
//
//	in use --change of the view--> relic --read by nobody--> gone
type garbage struct {
	// valueBytes is how many bytes of it are value files, memtableBytes how much
	// memory memtables.
	valueBytes, memtableBytes atomic.Int64

	sweeping sync.Mutex // held by who gives some back; taken before mu
	mu       sync.Mutex
	heap     []relic // the oldest first
}

// A relic is a memtable or a file that a change of the view has left behind.
type relic struct {
	memtable *memtable.Table // nil if it is a file
	file     base.FileNum    // the number in its name
	values   bool            // it is a value file
	bytes    int64           // of memory, or of the file
	// Views from turn born to before turn gone have had it. That of a file is
	// told by its number instead: numbers are given in the order of time.
	born, gone uint64
	since      time.Time
}

// in reports whether the view with a mark may have the relic.
func (r *relic) in(m *mark) bool {
	if r.gone <= m.turn || mutant.On(mutant.NoBarrier) {
		return false
	}
	if r.memtable != nil {
		return r.born <= m.turn && !m.filesOnly
	}
	return r.file < m.files
}

// flushedGarbage is what a flush of v.tables[from:] leaves behind.
func flushedGarbage(v *view, from int) (gone []relic) {
	for i, t := range v.tables[from:] {
		gone = append(gone, relic{memtable: t, bytes: t.Bytes(), born: v.born[from+i]})
	}
	return gone
}

func relicOfTable(t *manifest.Table) relic { return relic{file: t.Num, bytes: t.Size} }

func relicOfValues(v *manifest.ValueFile) relic {
	return relic{file: v.File, values: true, bytes: v.Size}
}

// discard takes what the view has no more. The files in it are deleted in the
// end, so the manifest must durably lack them.
func (d *DB) discard(gone []relic) {
	d.at(pointReplaced)
	d.garbage.add(gone, &d.view)
	d.at(pointDiscarded)
	if d.garbage.sweeping.TryLock() {
		d.giveAllBack()
		d.garbage.sweeping.Unlock()
		return
	}
	d.background.sweeper.wake() // files take long to delete: a flush does not wait for that
}

// add takes what the newest view has no more, nor will any later one. That view is
// looked up under mu, so that the last relic is gone since the newest turn of all.
func (g *garbage) add(gone []relic, newest *atomic.Pointer[view]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	turn := newest.Load().mark.turn
	if n := len(g.heap); n > 0 {
		invariant.Check(g.heap[n-1].gone <= turn, "garbage of turn %d comes after that of %d", turn, g.heap[n-1].gone)
	}
	for _, r := range gone {
		r.gone, r.since = turn, time.Now()
		g.count(&r, r.bytes)
		g.heap = append(g.heap, r)
	}
}

// count adds bytes to those of what r is.
func (g *garbage) count(r *relic, bytes int64) {
	switch {
	case r.memtable != nil:
		g.memtableBytes.Add(bytes)
	case r.values:
		g.valueBytes.Add(bytes)
	}
}

// sweep gives back what nobody reads any more.
func (d *DB) sweep() {
	d.garbage.sweeping.Lock()
	defer d.garbage.sweeping.Unlock()
	d.giveAllBack()
}

// giveAllBack does it. The caller holds sweeping.
//
// Garbage goes when readers have ended, and merges may then drop what only these
// could see. Nobody else would tell the compactor of a database that is left
// alone. Of one that is closed nobody needs to know how much room there is: the
// directory may be somebody else's, and who ends as its last reader may hold what
// it takes to look.
func (d *DB) giveAllBack() {
	unread := d.garbage.takeUnread(d.readers)
	for i := range unread {
		d.giveBack(&unread[i])
	}
	if len(unread) > 0 {
		d.background.compactor.wake()
	}
	if !d.closed.Load() && d.room.scarce() {
		d.room.look()
	}
}

// empty reports whether all has been given back.
func (g *garbage) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.heap) == 0
}

// takeUnread takes out what nobody reads any more.
func (g *garbage) takeUnread(readers *txn.Registry[reader]) (unread []relic) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.heap) == 0 {
		return nil
	}
	marks := g.holders(readers)
	kept := g.heap[:0]
	for i := range g.heap {
		r := &g.heap[i]
		if slices.ContainsFunc(marks, r.in) {
			kept = append(kept, *r)
		} else {
			unread = append(unread, *r)
		}
	}
	clear(g.heap[len(kept):])
	g.heap = kept
	return unread
}

// holders returns the marks of readers that keep some of the garbage, each once.
// The caller holds mu.
func (g *garbage) holders(readers *txn.Registry[reader]) (marks []*mark) {
	for slot := range readers.Held {
		if m := g.keptFor(slot); m != nil && !slices.Contains(marks, m) {
			marks = append(marks, m)
		}
	}
	return marks
}

// keptFor returns the mark of who holds slot if some of the garbage is kept for
// it, and nil otherwise. That one is awaited: either it finds so when it ends or
// stores another mark, which wakes the sweeper, or it did so before the second look
// at the slot. The caller holds mu.
func (g *garbage) keptFor(slot *readerSlot) *mark {
	newest := g.heap[len(g.heap)-1].gone
	for {
		m := slot.Data.reads.Load()
		if m == nil || m.turn >= newest || !g.has(m) {
			return nil
		}
		slot.Data.awaited.Store(true)
		if !slot.Held() {
			return nil
		}
		if slot.Data.reads.Load() == m {
			return m
		}
	}
}

// has reports whether the view with a mark may have some of the garbage. The
// caller holds mu.
func (g *garbage) has(m *mark) bool {
	for i := range g.heap {
		if g.heap[i].in(m) {
			return true
		}
	}
	return false
}

// giveBack frees memory or deletes a file. A file that cannot be deleted now
// is an orphan that the next Open deletes.
func (d *DB) giveBack(r *relic) {
	switch {
	case r.memtable != nil:
		r.memtable.Release()
	case r.values:
		d.dropValueFile(r.file)
	default:
		if err := d.tables.Drop([]base.FileNum{r.file}); err != nil {
			d.emit(Warning{What: "a table could not be closed", Err: err})
		}
		d.removeFile(base.TableName(r.file))
	}
	d.garbage.count(r, -r.bytes)
}

// dropValueFile ends the reading of a value file and deletes it.
func (d *DB) dropValueFile(num base.FileNum) {
	if err := d.tables.DropValues([]base.FileNum{num}); err != nil {
		d.emit(Warning{What: "a value file could not be closed", Err: err})
	}
	d.removeFile(base.ValueName(num))
}

// removeFile deletes a file of the database that nothing refers to, unless
// the manifest has failed: then nobody knows what it refers to.
func (d *DB) removeFile(name string) {
	if d.manifest.Err() != nil {
		return
	}
	err := d.fs.Remove(d.fs.Join(d.dir, name))
	switch {
	case err == nil:
		d.emit(FileDeleted{Name: name})
	case !errors.Is(err, vfs.ErrNotExist):
		d.emit(Warning{What: "a file that is not needed could not be removed", Err: err})
	}
}

// foreignFile is a number that no database comes to, at a file each second for
// a lifetime. A file with a higher one was not made by this package: it is
// deleted like any orphan, but numbers do not go on from its own. Pointers have
// room for 32 bits.
const foreignFile = base.FileNum(1 << 31)

// removeOrphans deletes the tables and value files that unfinished work of an
// earlier opening has left. The manifest does not know them, nor that their
// numbers have been given: new files get higher ones, so that an orphan that
// cannot be deleted is in nobody's way.
func (d *DB) removeOrphans() error {
	names, err := d.orphans()
	for _, name := range names {
		if n := fileNumOf(name); n < foreignFile {
			d.nextFile.Store(max(d.nextFile.Load(), uint64(n)+1))
		}
		d.removeFile(name)
	}
	return err
}

// fileNumOf returns the number in the name of a table or a value file.
func fileNumOf(name string) base.FileNum {
	n, ok := base.ParseTableName(name)
	if !ok {
		n, _ = base.ParseValueName(name)
	}
	return n
}

// orphans returns the tables and value files that the manifest does not know.
func (d *DB) orphans() (orphans []string, err error) {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, level := range d.manifest.State().Version.Levels {
		for _, t := range level {
			live[base.TableName(t.Num)] = true
		}
	}
	for _, v := range d.manifest.State().Version.Values {
		live[base.ValueName(v.File)] = true
	}
	for _, name := range names {
		_, isTable := base.ParseTableName(name)
		_, isValues := base.ParseValueName(name)
		if (isTable || isValues) && (!live[name] || mutant.On(mutant.LiveOrphan)) {
			orphans = append(orphans, name)
		}
	}
	return orphans, nil
}
