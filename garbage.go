package stoat

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
	"github.com/stoatdb/stoat/internal/vfs"
)

// garbage is what no new reader can reach, while readers that began before may
// still use it: memtables that were flushed, files that were replaced.
//
//	in use --change of the view--> discarded --barrier passed--> gone
type garbage struct {
	some atomic.Bool // there is some, so that a reader that ends says so
	mu   sync.Mutex
	heap []discarded // the oldest first
}

// discarded is what one change of the view left behind.
type discarded struct {
	readers   *txn.Barrier[Txn]
	memtables []*memtable.Table
	tables    []base.FileNum
	values    []base.FileNum // by the numbers in their names
	bytes     int64          // of the files
	since     time.Time
}

// discard takes what the view has no more. The files in it are deleted in the
// end, so the manifest must durably lack them.
func (d *DB) discard(g discarded) {
	d.garbage.mu.Lock()
	g.readers, g.since = d.readers.Barrier(), time.Now()
	d.garbage.heap = append(d.garbage.heap, g)
	d.garbage.some.Store(true)
	d.garbage.mu.Unlock()
	d.sweep()
}

// sweep gives back what nobody reads any more.
func (d *DB) sweep() {
	g := &d.garbage
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.heap) > 0 && (g.heap[0].readers.Passed() || mutant.On(mutant.NoBarrier)) {
		d.giveBack(&g.heap[0])
		g.heap[0] = discarded{}
		g.heap = g.heap[1:]
	}
	g.some.Store(len(g.heap) > 0)
}

// giveBack frees memory and deletes files. A file that cannot be deleted now
// is an orphan that the next Open deletes.
func (d *DB) giveBack(g *discarded) {
	for _, t := range g.memtables {
		t.Release()
	}
	if err := d.tables.Drop(g.tables); err != nil {
		d.emit(Warning{What: "a table could not be closed", Err: err})
	}
	if err := d.tables.DropValues(g.values); err != nil {
		d.emit(Warning{What: "a value file could not be closed", Err: err})
	}
	for _, n := range g.tables {
		d.removeFile(base.TableName(n))
	}
	for _, n := range g.values {
		d.removeFile(base.ValueName(n))
	}
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

// removeOrphans deletes the tables and value files that unfinished work of an
// earlier opening has left. The manifest does not know them.
func (d *DB) removeOrphans() error {
	names, err := d.orphans()
	for _, name := range names {
		d.removeFile(name)
	}
	return err
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
