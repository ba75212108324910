package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// checkNewer asks for newer versions of keys and ranges, and compares the answers
// with a search through all entries.
func checkNewer(r *Reader, entries []base.Entry, rng *rand.Rand, fail failer) {
	if len(entries) == 0 {
		return
	}
	some := func() base.Entry { return entries[rng.IntN(len(entries))] }
	for range 60 {
		key, since := some().Key, some().Seq-base.SeqNum(rng.IntN(2))
		if rng.IntN(3) == 0 {
			key = near(rng, key)
		}
		e, there := find(entries, key, base.SeqNumMax)
		got, err := r.Newest(hashOf(key), since)
		if want := there && e.Seq > since; got != want || err != nil {
			fail("Newest(%.60q, %d) = %v, %v; want %v", key, since, got, err, want)
		}
		lo, hi := near(rng, some().Key), near(rng, key)
		switch rng.IntN(6) {
		case 0:
			lo = nil
		case 1:
			hi = nil
		case 2:
			lo, hi = key, append(bytes.Clone(key), 0)
		}
		want := false
		for _, e := range entries {
			want = want || e.Seq > since && bytes.Compare(e.Key, lo) >= 0 && (hi == nil || bytes.Compare(e.Key, hi) < 0)
		}
		if got, err := r.RangeNewer(lo, hi, since, nil); got != want || err != nil {
			fail("RangeNewer(%.60q, %.60q, %d) = %v, %v; want %v", lo, hi, since, got, err, want)
		}
		even := func(key []byte) bool { return key[len(key)-1]%2 == 0 }
		want = false
		for _, e := range entries {
			want = want || e.Seq > since && even(e.Key) && bytes.Compare(e.Key, lo) >= 0 && (hi == nil || bytes.Compare(e.Key, hi) < 0)
		}
		if got, err := r.RangeNewer(lo, hi, since, even); got != want || err != nil {
			fail("RangeNewer(%.60q, %.60q, %d) of some keys = %v, %v; want %v", lo, hi, since, got, err, want)
		}
	}
}

func TestNewest_ComparesTheWholeHash(t *testing.T) {
	t.Parallel()
	// Few slots and short tags, so that foreign hashes often meet slots with their
	// tag.
	var entries []base.Entry
	for i := range 3000 {
		entries = append(entries, base.Entry{
			Key: fmt.Appendf(nil, "%06d", i), Seq: base.SeqNum(100 + i), Meta: base.Meta{Kind: base.KindSet},
		})
	}
	data, _ := mustBuild(t, entries, WriterOptions{})
	r := mustOpen(t, data, ReaderOptions{})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		if found, err := r.Newest(rng.Uint64(), 0); found || err != nil {
			t.Fatalf("a hash of no key: %v, %v", found, err)
		}
	}
	for _, e := range entries {
		if found, err := r.Newest(hashOf(e.Key), e.Seq-1); !found || err != nil {
			t.Fatalf("%s: %v, %v", e.Key, found, err)
		}
		if found, err := r.Newest(hashOf(e.Key), e.Seq); found || err != nil {
			t.Fatalf("%s: %v, %v", e.Key, found, err)
		}
	}
}

// Not parallel: it counts allocations.
func TestNewest_AllocatesNothing(t *testing.T) {
	_, data := smallTable(t, codec.None)
	r := mustOpen(t, data, ReaderOptions{})
	key := []byte("key-003")
	hash := hashOf(key)
	allocs := testing.AllocsPerRun(100, func() {
		if found, err := r.Newest(hash, 1); !found || err != nil {
			t.Error(found, err)
		}
		if found, err := r.RangeNewer(key, nil, 1, nil); !found || err != nil {
			t.Error(found, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
