package backup

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// timedDump returns what each timestamp from low on sees in a keyspace with timestamps.
func timedDump(t *testing.T, db *stoat.DB, low, high uint64) string {
	t.Helper()
	var b bytes.Buffer
	ks, err := db.Keyspace("timed", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for at := low; at <= high; at++ {
			it := tx.In(ks).At(at).Iterator(stoat.IterOptions{})
			for it.Next() {
				i := it.Item()
				v, err := i.Value()
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "%d %s=%.30s %d %d %d\n", at, i.Key(), v, len(v), i.Version(), i.Timestamp())
			}
			if err := it.Close(); err != nil {
				return err
			}
		}
		return nil
	}))
	return b.String()
}

func TestBackup_AChainHasWhatEachTimestampSees(t *testing.T) {
	t.Parallel()
	base := dose.Seed(t)
	for i := range dose.Short(3, 8) {
		seed := base + uint64(i)
		rng := rand.New(rand.NewPCG(seed, 1))
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
		kind := []stoat.Timestamps{stoat.TimestampsChecked, stoat.TimestampsUnchecked}[seed%2]
		ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: kind, ValueThreshold: 64})
		testkit.Must(t, err)
		low, now := uint64(1), uint64(5)
		key := func() []byte { return fmt.Appendf(nil, "k%02d", rng.IntN(30)) }
		value := func() []byte { return bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, 1+rng.IntN(2)*rng.IntN(300)) }
		var chain [][]byte
		var info stoat.BackupInfo
		for n := range 7 {
			for range 30 {
				at := now
				if kind == stoat.TimestampsUnchecked && rng.IntN(2) == 0 {
					at = low + rng.Uint64N(now-low+1)
				}
				switch rng.IntN(12) {
				case 0:
					testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				case 1:
					low += rng.Uint64N(now - low + 1)
					testkit.Must(t, ks.DiscardBelow(low))
				case 2:
					entries := map[string][]byte{}
					for range 10 {
						entries[string(key())] = value()
					}
					var seq iter.Seq2[stoat.Entry, error] = func(yield func(stoat.Entry, error) bool) {
						for k, v := range entries {
							if !yield(stoat.Entry{Key: []byte(k), Value: v}, nil) {
								return
							}
						}
					}
					_, err := db.BulkLoad(t.Context(), seq, stoat.IngestOptions{Keyspace: ks, Timestamp: at})
					testkit.Must(t, err)
				case 3:
					if rng.IntN(6) == 0 {
						testkit.Must(t, ks.DropPrefix(t.Context(), []byte("k1")))
					}
				default:
					testkit.Must(t, db.Update(func(tx stoat.Txn) error {
						for range 1 + rng.IntN(5) {
							var err error
							if rng.IntN(3) == 0 {
								err = tx.In(ks).At(at).Delete(key())
							} else if rng.IntN(8) == 0 {
								err = tx.In(ks).At(at).Set(key(), value(), stoat.TTL(time.Hour))
							} else {
								err = tx.In(ks).At(at).Set(key(), value())
							}
							if err != nil {
								return err
							}
						}
						return nil
					}))
				}
				now += uint64(rng.IntN(2))
			}
			o := stoat.BackupOptions{Since: info, Versions: rng.IntN(3)}
			b, next := backUp(t, db, o)
			chain, info = append(chain, b), next
			want := timedDump(t, db, low, now)
			restored := restore(t, chain...)
			if got := timedDump(t, restored, low, now); got != want {
				t.Fatalf("seed %d backup %d: got\n%s\nwant\n%s", seed, n, got, want)
			}
			testkit.Must(t, restored.Compact(t.Context(), stoat.CompactOptions{}))
			if got := timedDump(t, restored, low, now); got != want {
				t.Fatalf("seed %d backup %d compacted: got\n%s\nwant\n%s", seed, n, got, want)
			}
			testkit.MustBeSound(t, restored)
		}
		testkit.Must(t, db.Close())
	}
}
