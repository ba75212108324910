package backup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A life is a database with random contents, and a chain of backups of it.
type life struct {
	rng   *rand.Rand
	clock *testkit.Clock
	opts  stoat.Options
	db    *stoat.DB
	marks markFilter
	// release ends a transaction that reads. Old versions that it sees stay.
	release func()

	chain [][]byte
	infos []stoat.BackupInfo
	dumps []dump
	times []int64 // of the dumps, in ms since 1970
}

func newLife(seed uint64) (*life, error) {
	l := &life{rng: rand.New(rand.NewPCG(seed, 11)), clock: testkit.NewClock(), release: func() {}}
	l.opts = testkit.Merging(stoat.Options{FS: memfs.New(), Clock: l.clock, MemtableSize: 64 << 10,
		Compression: testkit.Compressions[seed%3], NumVersions: 1 + int(seed/3%3), Keys: testkit.KeysIf(seed%4 == 3)})
	l.opts.Filters = []stoat.Filter{&l.marks}
	db, err := stoat.Open("/db", &l.opts)
	l.db = db
	return l, err
}

// A markFilter drops or rewrites values by their user's byte, while it works.
type markFilter struct{ works atomic.Bool }

func (*markFilter) Name() string { return "mark" }

func (f *markFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	if !f.works.Load() {
		return stoat.FilterKeep, nil
	}
	switch v.UserMeta() % 4 {
	case 1:
		return stoat.FilterDrop, nil
	case 2, 3:
		if old, err := v.Bytes(); err == nil {
			return stoat.FilterRewrite, append(bytes.Clone(old), '+')
		}
	}
	return stoat.FilterKeep, nil
}

// compact compacts while the filter works. The second compaction waits for one that
// another goroutine began meanwhile, so that nothing changes between a backup and its dump.
func (l *life) compact(ctx context.Context) error {
	l.marks.works.Store(true)
	err := l.db.Compact(ctx, stoat.CompactOptions{})
	l.marks.works.Store(false)
	if err != nil {
		return err
	}
	return l.db.Compact(ctx, stoat.CompactOptions{})
}

// other returns the options for another directory of the same disk.
func (l *life) other() *stoat.Options {
	o := l.opts
	o.NumVersions, o.Compression, o.Filters = 0, 0, nil
	return &o
}

// keyspaces are the keyspaces that a life may have beside the default one.
var keyspaces = []string{"plain", "small", "timed"}

func (l *life) keyspace(name string) (*stoat.Keyspace, error) {
	switch name {
	case "":
		return nil, nil
	case "small":
		return l.db.Keyspace(name, &stoat.KeyspaceOptions{ValueThreshold: 64, Compression: stoat.CompressionSmall,
			NumVersions: 1 + l.rng.IntN(3), Filter: []string{"mark", "mark", "mark", "none"}[l.rng.IntN(4)]})
	case "timed":
		return l.db.Keyspace(name, &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	}
	return l.db.Keyspace(name, &stoat.KeyspaceOptions{NumVersions: 1 + l.rng.IntN(3)})
}

// key returns a random key, often one of a few. Some need an escape.
func (l *life) key() []byte {
	key := fmt.Appendf(nil, "key%04d", l.rng.IntN([]int{20, 400}[l.rng.IntN(2)]))
	if l.rng.IntN(8) == 0 {
		key = append([]byte{0xff}, key...)
	}
	return key
}

func (l *life) value() []byte {
	n := []int{0, 20, 100, 600, 3000}[l.rng.IntN(5)]
	if l.rng.IntN(400) == 0 {
		n = 600 << 10 // it follows in chunks
	}
	return []byte(testkit.RandomValue(l.rng, n))
}

// act changes the database at random.
func (l *life) act(ctx context.Context) error {
	l.clock.Ms.Add(int64(l.rng.IntN(200)))
	name := append([]string{""}, keyspaces...)[l.rng.IntN(4)]
	switch l.rng.IntN(40) {
	case 0:
		return l.compact(ctx)
	case 1:
		return l.db.DropPrefix(ctx, []byte("key00"))
	case 2:
		if err := l.db.DropKeyspace(name); name != "" && err != nil && l.rng.IntN(2) == 0 {
			return nil // there may be none
		}
		return nil
	case 3:
		return l.db.Collect(ctx)
	case 4:
		return l.reopen()
	case 5:
		return l.hold()
	}
	ks, err := l.keyspace(name)
	if err != nil {
		return err
	}
	return l.db.Update(func(tx stoat.Txn) error {
		for range 1 + l.rng.IntN(20) {
			if err := l.write(tx.In(ks), name); err != nil {
				return err
			}
		}
		return nil
	}, stoat.WithDurability(testkit.RandomDurability(l.rng)))
}

func (l *life) write(tx stoat.Txn, name string) error {
	key := l.key()
	var o []stoat.SetOption
	if l.rng.IntN(4) == 0 {
		o = append(o, stoat.TTL(time.Duration(1+l.rng.IntN(20_000))*time.Millisecond))
	}
	if l.rng.IntN(4) == 0 {
		o = append(o, stoat.UserMeta(byte(l.rng.IntN(256))))
	}
	if name == "timed" {
		t := tx.At(uint64(l.rng.IntN(20)))
		switch l.rng.IntN(12) {
		case 0:
			return t.Delete(key)
		case 1:
			return t.PurgeRange(key, append(bytes.Clone(key[:len(key)-1]), 'x'))
		}
		return t.Set(key, l.value(), o...)
	}
	switch l.rng.IntN(12) {
	case 0, 1:
		return tx.Delete(key)
	case 2:
		return tx.DeleteRange(key, append(bytes.Clone(key[:len(key)-1]), 'x'))
	case 3, 4:
		if name == "" {
			return tx.Merge(key, []byte(testkit.RandomValue(l.rng, 20)))
		}
	case 5:
		err := tx.Renew(key, stoat.TTL(time.Duration(1+l.rng.IntN(20_000))*time.Millisecond))
		return err
	case 6:
		return tx.SetReader(key, bytes.NewReader(l.value()), o...)
	}
	return tx.Set(key, l.value(), o...)
}

// hold begins a transaction that reads, in place of the one before.
func (l *life) hold() error {
	l.release()
	l.release = func() {}
	tx, err := l.db.Begin(stoat.ReadOnly)
	if err == nil {
		l.release = tx.Discard
	}
	return err
}

// reopen closes the database and opens it again, with another number of versions.
func (l *life) reopen() (err error) {
	l.release()
	l.release = func() {}
	l.opts.NumVersions = 1 + l.rng.IntN(3)
	if err = l.db.Close(); err == nil {
		l.db, err = stoat.Open("/db", &l.opts)
	}
	return err
}

// backUp adds a backup to the chain, or begins a new chain.
func (l *life) backUp(ctx context.Context) error {
	var o stoat.BackupOptions
	if n := len(l.infos); n > 0 {
		o.Since = l.infos[n-1]
	}
	o.Compression = testkit.Compressions[l.rng.IntN(3)]
	o.Versions = l.rng.IntN(3)
	var to bytes.Buffer
	info, err := l.db.Backup(ctx, &to, o)
	if err != nil {
		return err
	}
	verified, err := stoat.VerifyBackup(ctx, bytes.NewReader(to.Bytes()))
	if err != nil || verified != info {
		return fmt.Errorf("verified %+v, want %+v: %w", verified, info, err)
	}
	seen, err := snapshotOf(l.db, l.clock.Ms.Load())
	l.times = append(l.times, l.clock.Ms.Load())
	l.chain, l.infos, l.dumps = append(l.chain, to.Bytes()), append(l.infos, info), append(l.dumps, seen)
	return err
}

// readers returns the backups of the chain up to number n.
func (l *life) readers(n int) (all []io.Reader) {
	for _, b := range l.chain[:n] {
		all = append(all, bytes.NewReader(b))
	}
	return all
}

// check restores the chain up to backup n and compares. The clock must not have moved
// since the dump, because values expire.
func (l *life) check(ctx context.Context, n int) error {
	dir := fmt.Sprintf("/restored%d", l.rng.Uint64())
	want := l.infos[n-1]
	o := stoat.RestoreOptions{Options: l.other()}
	readers := l.readers(n)
	if l.rng.IntN(2) == 0 {
		o.Version, readers = want.Version, l.readers(len(l.chain))
	}
	got, err := stoat.Restore(ctx, dir, o, readers...)
	if err != nil {
		return err
	}
	if got.Version != want.Version || got.Database != want.Database {
		return fmt.Errorf("restored %+v, want %+v", got, want)
	}
	return l.compare(ctx, dir, l.dumps[n-1])
}

// compare opens a database and compares it with a dump.
func (l *life) compare(ctx context.Context, dir string, want dump) (err error) {
	db, err := stoat.Open(dir, l.other())
	if err != nil {
		return err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	got, err := snapshotOf(db, l.clock.Ms.Load())
	if err == nil {
		err = got.diff(want)
	}
	if err != nil {
		return err
	}
	if _, err = db.Check(ctx, stoat.CheckOptions{}); err != nil {
		return err
	}
	// What was restored is like any other data for background jobs.
	if err := db.Compact(ctx, stoat.CompactOptions{}); err != nil {
		return err
	}
	if got, err = snapshotOf(db, l.clock.Ms.Load()); err == nil {
		err = got.diff(want)
	}
	return err
}

// RunLife plays a life with a chain of so many backups. It restores each of them.
func RunLife(seed uint64, backups int) (err error) {
	l, err := newLife(seed)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.db.Close(); err == nil {
			err = e
		}
	}()
	ctx := context.Background()
	for i := range backups {
		for range l.rng.IntN(30) {
			if err := l.act(ctx); err != nil {
				return fmt.Errorf("backup %d: %w", i, err)
			}
		}
		if err := l.backUp(ctx); err != nil {
			return fmt.Errorf("backup %d: %w", i, err)
		}
		if err := l.check(ctx, len(l.chain)); err != nil {
			return fmt.Errorf("backup %d: %w", i, err)
		}
	}
	return nil
}
