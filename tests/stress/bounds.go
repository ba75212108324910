package stress

import (
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RunBounds demands that databases under work keep to their memory, and that they give back
// what they do not need any more.
func RunBounds() error {
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"overwrites", overwrite}, {"a discard point", discard}, {"commits without flushes", commitWithoutFlushes}, {"encrypted reads", readEncrypted},
	} {
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// boundedDB opens a database with memtables of testkit.SmallMemtable.
func boundedDB(o stoat.Options) (*inside.DB, error) {
	o.MemtableSize, o.Durability, o.Compression = testkit.SmallMemtable, stoat.Buffered, stoat.CompressionNone
	return inside.Open(testkit.Dir, &o, work.Executor{})
}

// setEach gives n keys values of a size, in a transaction each.
func setEach(db *inside.DB, n, size int) error {
	return testkit.Times(n, func(i int) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, size)) })
	})
}

// overwrite overwrites the values of a few keys, which lie in value files. The log, the memory
// of memtables and the value files come back.
func overwrite() (err error) {
	const rounds, keys, size = 20, 200, 1000
	db, err := boundedDB(stoat.Options{FS: memfs.NewVolatile()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = testkit.Times(rounds, func(int) error { return setEach(db, keys, size) })
	if err == nil {
		err = testkit.WaitForFlushes(db.DB)
	}
	if err == nil { // with a bound, it collects no garbage
		err = db.Compact(context.Background(), stoat.CompactOptions{Lower: testkit.Key(0)})
	}
	var known collect.LiveSet
	for due := true; due && err == nil; {
		due, err = db.Engine.Collector.Tidy(true, &known)
	}
	s := db.Stats()
	const most = rounds * keys * size / 4
	if err == nil && (s.Log.BytesOnDisk > most || s.Memory.FlushedMemtables > most || s.ValueGarbage > most) {
		err = fmt.Errorf("a log of %d bytes, %d bytes of flushed memtables, %d bytes of garbage of values, want at most %d of each",
			s.Log.BytesOnDisk, s.Memory.FlushedMemtables, s.ValueGarbage, most)
	}
	return err
}

// discard raises the discard point of a keyspace with timestamps to the last version of each key.
// Tables then have that version only.
func discard() (err error) {
	const versions, keys = 20, 200
	db, err := boundedDB(stoat.Options{FS: memfs.NewVolatile()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	if err == nil {
		err = testkit.Times(versions, func(i int) error {
			return db.Update(func(tx stoat.Txn) error {
				timed := tx.In(ks).At(uint64(1 + i))
				return testkit.Times(keys, func(i int) error { return timed.Set(testkit.Key(i), make([]byte, 100)) })
			})
		})
	}
	if err == nil {
		err = ks.DiscardBelow(versions)
	}
	if err == nil {
		err = db.Compact(context.Background(), stoat.CompactOptions{})
	}
	if err != nil {
		return err
	}
	report, err := db.Check(context.Background(), stoat.CheckOptions{})
	if err == nil && report.Entries != keys {
		err = fmt.Errorf("tables have %d entries, want %d", report.Entries, keys)
	}
	return err
}

// commitWithoutFlushes commits while flushes fail. Commits fail before memtables take more than
// their memory.
func commitWithoutFlushes() (err error) {
	fs := faultfs.New(memfs.NewVolatile())
	db, err := boundedDB(stoat.Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Forever: true, Err: vfs.ErrNoSpace})
	const most = 4 * testkit.SmallMemtable
	errFull := setEach(db, 2*most/100, 100)
	// The last growth of the index of a memtable may pass its size.
	if held := db.Engine.Store.MemtableBytes(); !errors.Is(errFull, stoat.ErrNoSpace) || held > most*9/8 {
		err = fmt.Errorf("%d bytes of memtables, want at most %d, and then an error of the flush: %w", held, most*9/8, errFull)
	}
	fs.Clear()
	return errors.Join(err, setEach(db, 1, 100))
}

// readEncrypted reads more than the budget from an encrypted database. The decrypted pages stay
// within the budget.
func readEncrypted() (err error) {
	db, err := boundedDB(stoat.Options{FS: memfs.NewVolatile(), Keys: testkit.Keys, MemoryBudget: testkit.SmallBudget})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = setEach(db, 2000, 2*testkit.SmallBudget/1000)
	if err == nil {
		err = db.Compact(context.Background(), stoat.CompactOptions{})
	}
	if err == nil {
		_, err = db.Engine.Governor.Round(false) // sets the limit
	}
	if err == nil {
		err = db.View(func(tx stoat.Txn) error {
			_, err := testkit.ScanAll(tx, stoat.IterOptions{})
			return err
		})
	}
	m := db.Stats().Memory
	// A read passes the limit by what it decrypts at once.
	if pages := m.TablePages + m.ValuePages; err == nil && pages > m.Budget*3/2 {
		err = fmt.Errorf("%d bytes of decrypted pages, with a budget of %d", pages, m.Budget)
	}
	return err
}
