package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// pairs yields keys of testkit.Key from one number up to another, with a value for each.
func pairs(from, to int, value func(i int) []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		key := make([]byte, 0, 64)
		for i := from; i < to; i++ {
			key = append(key[:0], testkit.Key(i)...)
			if !yield(key, value(i)) {
				return
			}
			clear(key) // the caller's memory is its own again
		}
	}
}

func ingest(t *testing.T, db *stoat.DB, entries iter.Seq2[[]byte, []byte]) stoat.Ingested {
	t.Helper()
	done, err := db.Ingest(context.Background(), entries, stoat.IngestOptions{})
	testkit.Must(t, err)
	return done
}

func short(i int) []byte { return fmt.Appendf(nil, "short %d", i) }
func long(i int) []byte  { return bytes.Repeat(fmt.Appendf(nil, "long %d ", i), 100) }

// wantPairs demands that a transaction shows exactly the pairs.
func wantPairs(t *testing.T, tx stoat.Txn, from, to int, value func(i int) []byte) {
	t.Helper()
	i := from
	for k, v := range tx.All() {
		if i >= to || string(k) != string(testkit.Key(i)) || !bytes.Equal(v, value(i)) {
			t.Fatalf("entry %d of %d to %d is %q, with a value of %d bytes", i, from, to, k, len(v))
		}
		i++
	}
	testkit.Must(t, tx.Err())
	if i != to {
		t.Fatalf("the entries end at %d, want %d", i, to)
	}
	for i := from; i < to; i += 1 + (to-from)/50 {
		if v, err := tx.Get(testkit.Key(i)); err != nil || !bytes.Equal(v, value(i)) {
			t.Fatalf("key %d has %d bytes, %v", i, len(v), err)
		}
	}
}

// ingestOptions are the kinds of databases that ingests are tried with.
var ingestOptions = map[string]func(*stoat.Options){
	"plain":      nil,
	"small":      func(o *stoat.Options) { o.MemtableSize = 64 << 10 },
	"encrypted":  func(o *stoat.Options) { o.Keys = testkit.KeysIf(true) },
	"compressed": func(o *stoat.Options) { o.Compression = stoat.CompressionSmall },
}

func TestIngest_IsThereAtOnceAndAfterReopening(t *testing.T) {
	t.Parallel()
	n := testkit.Raced(5000, 1000)
	for name, change := range ingestOptions {
		for kind, value := range map[string]func(int) []byte{"short": short, "long": long} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				fs := memfs.New()
				db := testkit.OpenOn(t, fs, change)
				done := ingest(t, db, pairs(0, n, value))
				if done.Version != 1 || done.Entries != int64(n) || done.Bytes < int64(n)*10 {
					t.Errorf("ingested %+v", done)
				}
				check := func() {
					t.Helper()
					testkit.Must(t, db.View(func(tx stoat.Txn) error {
						if tx.ReadVersion() != 1 {
							t.Errorf("a snapshot is at %d", tx.ReadVersion())
						}
						wantPairs(t, tx, 0, n, value)
						return nil
					}))
					testkit.MustBeSound(t, db)
				}
				check()
				disk := fs.Crash(memfs.KeepNone, nil)
				testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
				check()
				testkit.Must(t, db.Close())
				db = testkit.OpenOn(t, fs, change)
				check()
				db = testkit.OpenOn(t, disk, change)
				check()
			})
		}
	}
}

func TestIngest_ReplacesOlderValuesAndIsReplacedByNewerOnes(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 300, 10, 'a') // in the memtable
	before := testkit.Begin(t, db, stoat.ReadOnly)
	defer before.Discard()
	version := ingest(t, db, pairs(100, 200, short)).Version
	if version != before.ReadVersion()+1 {
		t.Errorf("the ingest has version %d after %d", version, before.ReadVersion())
	}
	between := testkit.Begin(t, db, stoat.ReadOnly)
	defer between.Discard()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		testkit.Must(t, tx.Set(testkit.Key(150), []byte("newer")))
		return tx.Delete(testkit.Key(151))
	}))
	look := func() {
		t.Helper()
		for _, c := range []struct {
			tx   stoat.Txn
			key  int
			want string
		}{
			{before, 150, "aaaaaaaaaa"}, {between, 150, "short 150"}, {between, 99, "aaaaaaaaaa"},
			{between, 199, "short 199"}, {between, 200, "aaaaaaaaaa"}, {between, 151, "short 151"},
		} {
			got, err := c.tx.Get(testkit.Key(c.key))
			if string(got) != c.want || err != nil {
				t.Errorf("key %d at %d is %q, %v, want %q", c.key, c.tx.ReadVersion(), got, err, c.want)
			}
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			if got, err := tx.Get(testkit.Key(150)); string(got) != "newer" || err != nil {
				t.Errorf("the newest value is %q, %v", got, err)
			}
			_, err := tx.Get(testkit.Key(151))
			testkit.WantError(t, "get of a deleted key", err, stoat.ErrNotFound)
			return nil
		}))
	}
	look()
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	look()
}

func TestIngest_ConflictsWithReadsOfItsKeys(t *testing.T) {
	t.Parallel()
	get := func(i int) func(stoat.Txn) {
		return func(tx stoat.Txn) { _, _ = tx.Get(testkit.Key(i)) } // there or not
	}
	scan := func(lo, hi int) func(stoat.Txn) {
		return func(tx stoat.Txn) {
			for range tx.Range(testkit.Key(lo), testkit.Key(hi)) {
			}
		}
	}
	for _, c := range []struct {
		name string
		read func(stoat.Txn)
		want error
	}{
		{"its first key", get(100), stoat.ErrConflict},
		{"its last key", get(199), stoat.ErrConflict},
		{"a key behind", get(200), nil},
		{"a range over it", scan(0, 300), stoat.ErrConflict},
		{"a range in it", scan(150, 151), stoat.ErrConflict},
		{"a range before it", scan(0, 100), nil},
		{"a range behind it", scan(200, 300), nil},
		{"nothing", func(stoat.Txn) {}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := testkit.OpenMem(t)
			testkit.SetKeys(t, db, 50, 150, 10, 'a')
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			c.read(tx)
			testkit.Must(t, tx.Set([]byte("x"), nil))
			ingest(t, db, pairs(100, 200, short))
			testkit.WantError(t, "commit", tx.Commit(), c.want)
		})
	}
}

func TestIngest_RefusesKeysThatDoNotAscend(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	before := testkit.FilesOf(t, fs, testkit.Dir)
	for _, c := range []struct {
		keys     string
		position int64
		key      string
		want     error
	}{
		{"a b b c", 2, "b", stoat.ErrInvalid},
		{"a c b", 2, "b", stoat.ErrInvalid},
		{"b a", 1, "a", stoat.ErrInvalid},
		{"\xff\xff \xff", 1, "\xff", stoat.ErrInvalid},
	} {
		_, err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
			for key := range strings.FieldsSeq(c.keys) {
				if !yield([]byte(key), bytes.Repeat([]byte("v"), 1000)) {
					return
				}
			}
		}, stoat.IngestOptions{})
		var order *stoat.KeyOrderError
		if !errors.As(err, &order) || order.Position != c.position || string(order.Key) != c.key || !errors.Is(err, c.want) {
			t.Errorf("%q: %v", c.keys, err)
		}
	}
	wantSameFiles(t, fs, before)
	for name, want := range map[string]error{"": stoat.ErrEmptyKey, strings.Repeat("k", stoat.MaxKeySize+1): stoat.ErrKeyTooLarge} {
		_, err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) { yield([]byte(name), nil) }, stoat.IngestOptions{})
		testkit.WantError(t, "a bad key", err, want)
	}
	wantSameFiles(t, fs, before)
}

// wantSameFiles demands that the directory has the tables and value files that it had.
func wantSameFiles(t *testing.T, fs *memfs.FS, before map[string]string) {
	t.Helper()
	for name := range testkit.FilesOf(t, fs, testkit.Dir) {
		if _, ok := before[name]; !ok && (strings.HasSuffix(name, ".table") || strings.HasSuffix(name, ".values")) {
			t.Errorf("%s was left", name)
		}
	}
}

func TestIngest_LeavesNothingAfterAnErrorOrACancelledContext(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	before := testkit.FilesOf(t, fs, testkit.Dir)
	broken := errors.New("broken")
	_, err := db.IngestEntries(context.Background(), func(yield func(stoat.Entry, error) bool) {
		for k, v := range pairs(0, 3000, long) {
			if !yield(stoat.Entry{Key: k, Value: v}, nil) {
				return
			}
		}
		yield(stoat.Entry{}, broken)
	}, stoat.IngestOptions{})
	testkit.WantError(t, "an error of the input", err, broken)
	wantSameFiles(t, fs, before)

	ctx, cancel := context.WithCancel(context.Background())
	_, err = db.Ingest(ctx, pairs(0, 1<<30, func(i int) []byte {
		if i == 2000 {
			cancel()
		}
		return long(i)
	}), stoat.IngestOptions{})
	testkit.WantError(t, "a cancelled ingest", err, context.Canceled)
	wantSameFiles(t, fs, before)

	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of the input was lost")
			}
		}()
		_, _ = db.Ingest(context.Background(), pairs(0, 3000, func(i int) []byte {
			if i == 2999 {
				panic("input")
			}
			return long(i)
		}), stoat.IngestOptions{})
	}()
	wantSameFiles(t, fs, before)
	testkit.Must(t, db.View(func(tx stoat.Txn) error { wantPairs(t, tx, 0, 0, long); return nil }))
}

// A source may be slow, and Close waits for the next entry, too.
func TestIngest_EndsWithItsContextAtTheNextEntry(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for what, load := range map[string]func(context.Context, iter.Seq2[stoat.Entry, error], stoat.IngestOptions) (stoat.Ingested, error){
		"IngestEntries": db.IngestEntries, "BulkLoad": db.BulkLoad,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		_, err := load(ctx, func(yield func(stoat.Entry, error) bool) {
			for more := true; more && asked < 100; asked++ {
				if asked == 3 {
					cancel()
				}
				more = yield(stoat.Entry{Key: testkit.Key(asked)}, nil)
			}
		}, stoat.IngestOptions{})
		cancel()
		testkit.WantError(t, what, err, context.Canceled)
		if asked != 4 {
			t.Errorf("%s asks for %d entries when its context ends after the third", what, asked)
		}
	}
}

func TestIngest_OfNothingDoesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	if done := ingest(t, db, pairs(0, 0, short)); done != (stoat.Ingested{}) {
		t.Errorf("ingested %+v", done)
	}
	_, err := db.Ingest(context.Background(), nil, stoat.IngestOptions{})
	testkit.WantError(t, "no sequence", err, stoat.ErrInvalid)
}

func TestIngest_KeepsMetadataAndPrefersThatOfTheEntry(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.Clock, o.DefaultTTL = clock, time.Hour })
	now := clock.Seen()
	entries := []stoat.Entry{
		{Key: []byte("a"), Value: []byte("1")},
		{Key: []byte("b"), Value: []byte("2"), Options: []stoat.SetOption{stoat.UserMeta(7), stoat.ExpiresAt(time.Time{})}},
		{Key: []byte("c"), Value: long(1), Options: []stoat.SetOption{stoat.TTL(time.Second)}},
		{Key: []byte("d"), Value: []byte("4"), Options: []stoat.SetOption{stoat.UserMeta(0)}},
	}
	_, err := db.IngestEntries(context.Background(), func(yield func(stoat.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}, stoat.IngestOptions{Options: []stoat.SetOption{stoat.UserMeta(3)}})
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, c := range []struct {
			key  string
			user byte
			ttl  int64 // milliseconds
		}{{"a", 3, 3_600_000}, {"b", 7, 0}, {"c", 3, 1000}, {"d", 0, 3_600_000}} {
			item, err := tx.GetItem([]byte(c.key))
			testkit.Must(t, err)
			ttl := int64(0)
			if at := item.ExpiresAt(); !at.IsZero() {
				ttl = at.UnixMilli() - int64(now)
			}
			if item.UserMeta() != c.user || ttl < c.ttl || ttl > c.ttl+100 {
				t.Errorf("%s has %d and lives for %d ms", c.key, item.UserMeta(), ttl)
			}
		}
		return nil
	}))
	clock.Ms.Add(2000)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		_, err := tx.Get([]byte("c"))
		testkit.WantError(t, "get of an expired key", err, stoat.ErrNotFound)
		return nil
	}))
}

func TestIngest_WritesToAKeyspace(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	users, err := db.Keyspace("users", &stoat.KeyspaceOptions{ValueThreshold: 64})
	testkit.Must(t, err)
	ingest(t, db, pairs(0, 10, short))
	_, err = db.Ingest(context.Background(), pairs(5, 500, long), stoat.IngestOptions{Keyspace: users})
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		wantPairs(t, tx, 0, 10, short)
		wantPairs(t, tx.In(users), 5, 500, long)
		return nil
	}))
	testkit.MustBeSound(t, db)

	dropped := false
	_, err = db.Ingest(context.Background(), pairs(0, 100, func(i int) []byte {
		if !dropped {
			testkit.Must(t, db.DropKeyspace("users"))
			dropped = true
		}
		return short(i)
	}), stoat.IngestOptions{Keyspace: users})
	testkit.WantError(t, "a keyspace dropped meanwhile", err, stoat.ErrNoKeyspace)
	_, err = db.Ingest(context.Background(), pairs(0, 1, short), stoat.IngestOptions{Keyspace: users})
	testkit.WantError(t, "a dropped keyspace", err, stoat.ErrNoKeyspace)
}

func TestIngest_RunsBesideCommits(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := db.Update(func(tx stoat.Txn) error {
				old, err := tx.GetCopy(testkit.Key(5), nil)
				if err != nil && !errors.Is(err, stoat.ErrNotFound) {
					return err
				}
				if err := tx.Set(testkit.Key(7), old); err != nil {
					return err
				}
				return tx.Set(testkit.Key(6), long(i))
			}, stoat.WithDurability(stoat.Buffered))
			if err != nil && !errors.Is(err, stoat.ErrConflict) {
				done <- err
				return
			}
		}
	}()
	last := uint64(0)
	for i := range 30 {
		got := ingest(t, db, pairs(0, 6, func(int) []byte { return short(i) }))
		if got.Version <= last {
			t.Errorf("version %d after %d", got.Version, last)
		}
		last = got.Version
		// All keys of an ingest are of one version at any time.
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for j := range 6 {
				if v, err := tx.Get(testkit.Key(j)); string(v) != string(short(i)) {
					t.Errorf("key %d after ingest %d is %q, %v", j, i, v, err)
				}
			}
			return nil
		}))
	}
	close(stop)
	testkit.Must(t, <-done)
	testkit.MustBeSound(t, db)
}

func TestIngest_OfAReadOnlyOrClosedDatabase(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	testkit.Must(t, db.Close())
	_, err := db.Ingest(context.Background(), pairs(0, 1, short), stoat.IngestOptions{})
	testkit.WantError(t, "a closed database", err, stoat.ErrClosed)
	db = testkit.OpenOn(t, fs, func(o *stoat.Options) { o.ReadOnly = true })
	_, err = db.Ingest(context.Background(), pairs(0, 1, short), stoat.IngestOptions{})
	testkit.WantError(t, "a read-only database", err, stoat.ErrReadOnly)
	testkit.Must(t, db.Close())
}
