package table

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const testSeed = 0x5eed

func hashOf(key []byte) uint64 { return base.Hash(key, testSeed) }

// sortEntries sorts entries in table order and drops duplicates.
func sortEntries(entries []base.Entry) []base.Entry {
	slices.SortFunc(entries, compareEntries)
	return slices.CompactFunc(entries, func(a, b base.Entry) bool { return compareEntries(a, b) == 0 })
}

func compareEntries(a, b base.Entry) int {
	return cmp.Or(bytes.Compare(a.Key, b.Key), -cmp.Compare(a.Seq, b.Seq))
}

// mustBuild writes a table and returns its bytes and properties.
func mustBuild(t testing.TB, entries []base.Entry, opts WriterOptions) ([]byte, Properties) {
	t.Helper()
	return mustBuildWith(t, entries, nil, opts)
}

// mustBuildWith writes a table of entries and range deletions.
func mustBuildWith(t testing.TB, entries []base.Entry, deletions *rangedel.List, opts WriterOptions) ([]byte, Properties) {
	t.Helper()
	fs := memfs.New()
	f, err := fs.Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	props, err := build(f, entries, deletions, opts)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, props.Size)
	if _, err := f.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if size, err := f.Size(); err != nil || size != props.Size {
		t.Fatalf("the file has %d bytes (%v), the properties say %d", size, err, props.Size)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return data, props
}

func build(f vfs.File, entries []base.Entry, deletions *rangedel.List, opts WriterOptions) (Properties, error) {
	opts.HashSeed = testSeed
	w, err := NewWriter(f, opts)
	if err != nil {
		return Properties{}, err
	}
	if err := w.AddDeletions(deletions); err != nil {
		return Properties{}, err
	}
	for _, e := range entries {
		if err := w.Add(e); err != nil {
			return Properties{}, err
		}
	}
	return w.Finish()
}

// openBytes opens a table with the given bytes.
func openBytes(t testing.TB, data []byte, opts ReaderOptions) (*Reader, error) {
	t.Helper()
	fs := memfs.NewVolatile()
	f, err := fs.Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return Open(f, int64(len(data)), "t", opts)
}

func mustOpen(t testing.TB, data []byte, opts ReaderOptions) *Reader {
	t.Helper()
	r, err := openBytes(t, data, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func cloneEntry(e base.Entry) base.Entry {
	return base.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), Seq: e.Seq, Meta: e.Meta}
}

func sameEntry(a, b base.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Seq == b.Seq && a.Meta == b.Meta
}

func describe(e base.Entry) string {
	v := fmt.Sprintf("%x", e.Value)
	return fmt.Sprintf("%.60q#%d %v %d:%.40s", e.Key, e.Seq, e.Meta, len(e.Value), v)
}

// drain reads the rest of a source in batches of random sizes, up to limit entries.
func drain(s iter.Source, rng *rand.Rand, limit int) ([]base.Entry, error) {
	var out []base.Entry
	var b iter.Batch
	for len(out) < limit {
		b.Want = 1 + rng.IntN(iter.BatchSize)
		if err := s.Fill(&b); err != nil {
			return out, err
		}
		if b.N == 0 {
			break
		}
		if b.Plain && !b.IsPlain() {
			return out, fmt.Errorf("a batch of %d entries from %.60q on is not plain", b.N, b.Entries[0].Key)
		}
		for i := range b.N {
			out = append(out, cloneEntry(b.Entries[i]))
		}
	}
	return out[:min(len(out), limit)], nil
}

// A shapeOfData is a method to generate entries.
type shapeOfData struct {
	keys     func(rng *rand.Rand) []byte
	values   func(rng *rand.Rand) []byte
	versions int
	metas    bool
	count    int
}

func randomShape(rng *rand.Rand) shapeOfData {
	keys := []func(*rand.Rand) []byte{
		func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "vsz=00128-k=%010d", rng.IntN(2000)) },
		func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "%d", rng.IntN(3000)) },
		func(rng *rand.Rand) []byte {
			return bytes.Repeat([]byte{byte(rng.IntN(2)) * 255}, 1+rng.IntN(12))
		},
		func(rng *rand.Rand) []byte {
			k := make([]byte, 1+rng.IntN(3))
			for i := range k {
				k[i] = byte(rng.IntN(4)) * 85
			}
			return k
		},
		func(rng *rand.Rand) []byte {
			return fmt.Appendf(bytes.Repeat([]byte("long/"), 40), "%03d%s", rng.IntN(300), bytes.Repeat([]byte("x"), rng.IntN(20)))
		},
		func(rng *rand.Rand) []byte {
			k := bytes.Repeat([]byte{'a' + byte(rng.IntN(3))}, []int{1, 300, 65535, 65536}[rng.IntN(4)])
			k[len(k)-1] = byte(rng.IntN(256))
			return k
		},
	}
	values := []func(*rand.Rand) []byte{
		func(*rand.Rand) []byte { return nil },
		func(rng *rand.Rand) []byte { return noise.Bytes(rng, 128) },
		func(rng *rand.Rand) []byte { return noise.Bytes(rng, rng.IntN(300)) },
		func(rng *rand.Rand) []byte { return bytes.Repeat([]byte("json"), rng.IntN(200)) },
		func(rng *rand.Rand) []byte {
			return noise.Bytes(rng, []int{0, 10, 4096, 5000, soloMin, soloMin + 1, 200_000}[rng.IntN(7)])
		},
	}
	return shapeOfData{
		keys:     keys[rng.IntN(len(keys))],
		values:   values[rng.IntN(len(values))],
		versions: []int{1, 1, 3, 400}[rng.IntN(4)],
		metas:    rng.IntN(2) == 0,
		count:    1 + rng.IntN([]int{3, 40, 600}[rng.IntN(3)]),
	}
}

func (s shapeOfData) entries(rng *rand.Rand) []base.Entry {
	var out []base.Entry
	total := 0
	for len(out) < s.count && total < 4<<20 {
		key := s.keys(rng)
		for range 1 + rng.IntN(s.versions) {
			e := base.Entry{
				Key: key, Value: s.values(rng),
				Seq:  base.SeqNum(rng.Uint64N([]uint64{10, 2000, 1 << 20, uint64(base.SeqNumMax)}[rng.IntN(4)])),
				Meta: base.Meta{Kind: base.KindSet},
			}
			if s.metas {
				decorate(rng, &e)
			}
			out = append(out, e)
			total += len(e.Key) + len(e.Value)
		}
	}
	return sortEntries(out)
}

func decorate(rng *rand.Rand, e *base.Entry) {
	switch rng.IntN(6) {
	case 0:
		e.Meta.Kind, e.Value = base.KindDelete, nil
	case 1:
		e.Meta.ExpiresAt = 1_790_000_000_000 + rng.Uint64N(1_000_000)
	case 2:
		e.Meta.User = byte(rng.Uint32())
	case 3:
		e.Meta.Kind = base.KindPointer
	case 4:
		e.Meta.ExpiresAt = ^uint64(0) - rng.Uint64N(3)
	}
}
