package backup

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestBackup_AChainHasIngestsMergesAndDrops(t *testing.T) {
	t.Parallel()
	base := dose.Seed(t)
	for i := range dose.Short(3, 8) {
		seed := base + uint64(i)
		rng := rand.New(rand.NewPCG(seed, 2))
		opts := func(o *stoat.Options) {
			o.MemtableSize = 64 << 10
			o.NumVersions = 1 + int(seed%3)
			o.MergeFunctions = []stoat.MergeFunction{merge.Append}
			o.MergeFunction = "stoat.append"
		}
		db := testkit.OpenOn(t, memfs.New(), opts)
		key := func() []byte { return fmt.Appendf(nil, "k%02d", rng.IntN(40)) }
		value := func() []byte { return bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, 1+rng.IntN(2)*rng.IntN(900)) }
		var chain [][]byte
		var info stoat.BackupInfo
		for n := range 7 {
			for range 30 {
				switch rng.IntN(13) {
				case 0:
					testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				case 1, 2:
					entries := map[string][]byte{}
					for range 10 {
						entries[string(key())] = value()
					}
					_, err := db.BulkLoad(t.Context(), func(yield func(stoat.Entry, error) bool) {
						for k, v := range entries {
							if !yield(stoat.Entry{Key: []byte(k), Value: v}, nil) {
								return
							}
						}
					}, stoat.IngestOptions{})
					testkit.Must(t, err)
				case 3:
					if rng.IntN(5) == 0 {
						testkit.Must(t, db.DropPrefix(t.Context(), []byte("k1")))
					} else if rng.IntN(20) == 0 {
						testkit.Must(t, db.DropAll(t.Context()))
					}
				case 4:
					testkit.Must(t, db.Collect(t.Context()))
				default:
					testkit.Must(t, db.Update(func(tx stoat.Txn) error {
						for range 1 + rng.IntN(5) {
							var err error
							switch rng.IntN(8) {
							case 0:
								err = tx.Delete(key())
							case 1:
								a, b := key(), key()
								if bytes.Compare(a, b) < 0 && rng.IntN(4) == 0 {
									err = tx.DeleteRange(a, b)
								}
							case 2:
								k := key()
								if _, e := tx.Get(k); e == nil {
									err = tx.Renew(k, stoat.TTL(time.Hour))
								}
							case 3, 4, 5:
								err = tx.Merge(key(), []byte{'+', byte('a' + rng.IntN(26))})
							default:
								err = tx.Set(key(), value())
							}
							if err != nil {
								return err
							}
						}
						return nil
					}))
				}
			}
			b, next := backUp(t, db, stoat.BackupOptions{Since: info, Versions: rng.IntN(3)})
			chain, info = append(chain, b), next
			want := valuesOf(t, db)
			o := &stoat.Options{FS: memfs.New()}
			opts(o)
			restored := restoreWith(t, o, chain...)
			if got := valuesOf(t, restored); !maps.Equal(got, want) {
				t.Fatalf("seed %d backup %d: got\n%.2000v\nwant\n%.2000v", seed, n, got, want)
			}
			testkit.Must(t, restored.Compact(t.Context(), stoat.CompactOptions{}))
			if got := valuesOf(t, restored); !maps.Equal(got, want) {
				t.Fatalf("seed %d backup %d compacted", seed, n)
			}
			testkit.MustBeSound(t, restored)
		}
		testkit.Must(t, db.Close())
	}
}

// An earlier backup has operands that a compaction merges before the merge function changes.
func TestBackup_AChainHasWhatTheMergeFunctionBeforeMade(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	functions := []stoat.MergeFunction{merge.Append, merge.Last(1)}
	with := func(name string) func(o *stoat.Options) {
		return func(o *stoat.Options) { o.MergeFunctions, o.MergeFunction = functions, name }
	}
	db := testkit.OpenOn(t, disk, with(merge.Append.Name()))
	for range 2 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("key"), merge.Push([]byte("a"))) }))
	}
	full, info := backUp(t, db, stoat.BackupOptions{})
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, with(merge.Last(1).Name()))
	testkit.SetKeys(t, db, 0, 1, 1, 'x')
	more, _ := backUp(t, db, stoat.BackupOptions{Since: info})
	o := &stoat.Options{FS: memfs.New()}
	with("")(o)
	restored := restoreWith(t, o, full, more)
	get := func(db *stoat.DB) (value string) {
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			v, err := tx.GetCopy([]byte("key"), nil)
			value = string(v)
			return err
		}))
		return value
	}
	if got, want := get(restored), get(db); got != want {
		t.Errorf("restored is %q, want %q", got, want)
	}
	testkit.Must(t, db.Close())
}

func restoreWith(t *testing.T, o *stoat.Options, backups ...[]byte) *stoat.DB {
	t.Helper()
	var readers []io.Reader
	for _, b := range backups {
		readers = append(readers, bytes.NewReader(b))
	}
	_, err := stoat.Restore(t.Context(), "/r", stoat.RestoreOptions{Options: o}, readers...)
	testkit.Must(t, err)
	db, err := stoat.Open("/r", o)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return db
}
