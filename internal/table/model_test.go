package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// modelSeeds is the number of random tables in the model test.
const modelSeeds = 40

func TestModel_TableMatchesSortedEntries(t *testing.T) {
	t.Parallel()
	seeds := uint64(modelSeeds)
	if invariant.Enabled || testing.Short() {
		seeds /= 4 // the order checks cost more than the reading
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		entries := randomShape(rng).entries(rng)
		opts := WriterOptions{
			Salt:        rng.Uint64(),
			BlockSize:   []int{0, 1, 64, 1 << 10, 100 << 10}[rng.IntN(5)],
			Compression: codec.ID(rng.IntN(3)),
			wideIndex:   rng.IntN(2) == 0,
		}
		deletions := randomDeletions(rng, entries)
		if deletions != nil && rng.IntN(4) == 0 {
			entries = nil
		}
		data, props := mustBuildWith(t, entries, deletions, opts)
		var ropts ReaderOptions
		if rng.IntN(2) == 0 {
			ropts.Cache = cache.New(1 << 20)
			defer ropts.Cache.Close()
		}
		r := mustOpen(t, data, ropts)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d (%d entries, %+v): %s", seed, len(entries), opts, fmt.Sprintf(format, args...))
		}
		if err := r.Verify(); err != nil {
			fail("verify: %v", err)
		}
		if got := fmt.Sprintf("%+v", r.Properties()); got != fmt.Sprintf("%+v", props) {
			fail("properties read %s, written %+v", got, props)
		}
		if !bytes.Equal(r.Deletions().AppendTo(nil), deletions.AppendTo(nil)) {
			fail("other range deletions than were written")
		}
		checkBounds(props, entries, deletions, fail)
		checkAhead(r, entries, rng, fail)
		checkGets(r, entries, rng, fail)
		checkAhead(r, entries, rng, fail)
		checkScans(r, entries, rng, fail)
		checkNewer(r, entries, rng, fail)
	}
}

type failer func(format string, args ...any)

// randomDeletions returns range tombstones among the keys of entries, most often
// none.
func randomDeletions(rng *rand.Rand, entries []base.Entry) *rangedel.List {
	var out []rangedel.Deletion
	for range max(0, rng.IntN(40)-20) {
		key := func() []byte { return near(rng, entries[rng.IntN(len(entries))].Key) }
		d := rangedel.Deletion{Lo: key(), Hi: key(), Seq: base.SeqNum(1 + rng.Uint64N(3000))}
		if rng.IntN(8) == 0 {
			d.Hi = base.EndOfKeys
		}
		if len(d.Lo) <= base.MaxKeySize && len(base.StoredBound(d.Hi)) <= base.MaxKeySize {
			out = append(out, d)
		}
	}
	return rangedel.Build(out)
}

// checkBounds compares the bounds in the properties with the contents of the table.
func checkBounds(p Properties, entries []base.Entry, deletions *rangedel.List, fail failer) {
	var want Properties
	want.SmallestSeq = base.SeqNumMax
	key := func(k []byte) {
		if want.Smallest == nil || bytes.Compare(k, want.Smallest) < 0 {
			want.Smallest = k
		}
		if c := bytes.Compare(k, want.Largest); c > 0 {
			want.Largest, want.LargestExclusive = k, false
		}
	}
	for i := range deletions.Len() {
		f := deletions.At(i)
		key(f.Lo)
		if bytes.Compare(f.Hi, want.Largest) > 0 {
			want.Largest, want.LargestExclusive = f.Hi, true
		}
		for _, s := range f.Seqs {
			want.SmallestSeq, want.LargestSeq = min(want.SmallestSeq, s), max(want.LargestSeq, s)
			want.RangeDeletions++
		}
	}
	for _, e := range entries {
		key(e.Key)
		if bytes.Equal(e.Key, want.Largest) {
			want.LargestExclusive = false
		}
		want.SmallestSeq, want.LargestSeq = min(want.SmallestSeq, e.Seq), max(want.LargestSeq, e.Seq)
	}
	if !bytes.Equal(p.Smallest, want.Smallest) || !bytes.Equal(p.Largest, want.Largest) ||
		p.LargestExclusive != want.LargestExclusive || p.SmallestSeq != want.SmallestSeq ||
		p.LargestSeq != want.LargestSeq || p.RangeDeletions != want.RangeDeletions || p.Entries != uint64(len(entries)) {
		fail("properties %+v, want %+v", p, want)
	}
}

func checkGets(r *Reader, entries []base.Entry, rng *rand.Rand, fail failer) {
	for range min(400, 4*len(entries)) {
		key, at := drawGet(entries, rng)
		value, meta, seq, ok, err := r.Get(key, hashOf(key), at, nil)
		checkGot(entries, at, base.Entry{Key: key, Value: value, Seq: seq, Meta: meta}, ok, err, fail)
	}
}

// drawGet returns a key and a version for a lookup.
func drawGet(entries []base.Entry, rng *rand.Rand) (key []byte, at base.SeqNum) {
	e := entries[rng.IntN(len(entries))]
	switch rng.IntN(5) {
	case 0:
		return e.Key, base.SeqNumMax + 1
	case 1:
		return e.Key, base.SeqNum(rng.Uint64N(uint64(e.Seq) + 2))
	case 2:
		return near(rng, e.Key), e.Seq
	}
	return e.Key, e.Seq
}

// checkGot checks the result of a lookup up to version at.
func checkGot(entries []base.Entry, at base.SeqNum, got base.Entry, ok bool, err error, fail failer) {
	want, there := find(entries, got.Key, at)
	if err != nil || ok != there || ok && !sameEntry(got, want) {
		fail("get %.60q at %d: %s, %v, %v; want %s, %v", got.Key, at, describe(got), ok, err, describe(want), there)
	}
}

// checkAhead looks keys up together.
func checkAhead(r *Reader, entries []base.Entry, rng *rand.Rand, fail failer) {
	if len(entries) == 0 {
		return
	}
	var a Ahead
	for range 4 {
		var keys [AheadSize][]byte
		var ats [AheadSize]base.SeqNum
		n := 1 + rng.IntN(AheadSize)
		a.Begin()
		for i := range n {
			keys[i], ats[i] = drawGet(entries, rng)
			a.Add(r, hashOf(keys[i]))
		}
		if a.Len() != n || a.Left() != AheadSize-n {
			fail("%d lookups, room for %d more, after %d", a.Len(), a.Left(), n)
		}
		a.Load()
		if rng.IntN(4) == 0 {
			if err := r.DropPages(); err != nil {
				fail("drop: %v", err)
			}
		}
		for i := range n {
			for _, at := range []base.SeqNum{ats[i], base.SeqNumMax + 1} {
				value, meta, seq, ok, err := a.Get(i, keys[i], at, nil)
				checkGot(entries, at, base.Entry{Key: keys[i], Value: value, Seq: seq, Meta: meta}, ok, err, fail)
			}
		}
	}
	a.Clear()
}

// An entry whose hash has the tag of another key must not become the answer for that key.
func TestAhead_ComparesTheKey(t *testing.T) {
	t.Parallel()
	entry := base.Entry{Key: []byte("key"), Value: []byte("value"), Seq: 1, Meta: base.Meta{Kind: base.KindSet}}
	data, _ := mustBuild(t, []base.Entry{entry}, WriterOptions{})
	r := mustOpen(t, data, ReaderOptions{})
	var a Ahead
	for range 2 { // the block is verified the second time
		a.Begin()
		a.Add(r, hashOf(entry.Key))
		a.Load()
		if value, _, _, ok, err := a.Get(0, []byte("kez"), 1, nil); ok || err != nil {
			t.Errorf("value %q, %v of a key that is not there", value, err)
		}
	}
}

// The memory for lookups stays when the readers of their tables are closed.
func TestAhead_ClearLeavesNoAddressInAFile(t *testing.T) {
	t.Parallel()
	entries := manyEntries(3000)
	data, _ := mustBuild(t, entries, WriterOptions{})
	r := mustOpen(t, data, ReaderOptions{})
	if err := r.Load(nil); err != nil {
		t.Fatal(err)
	}
	var a Ahead
	for _, n := range []int{AheadSize, 1} {
		a.Begin()
		for i := range n {
			a.Add(r, hashOf(entries[20*i].Key))
		}
		a.Load()
	}
	isAddress := func(p *byte) bool { return p != nil }
	if !slices.ContainsFunc(a.places[:], isAddress) {
		t.Fatal("nothing was loaded")
	}
	if a.Clear(); slices.ContainsFunc(a.places[:], isAddress) {
		t.Error("an address is left")
	}
}

// near returns a key that is close to key and probably absent.
func near(rng *rand.Rand, key []byte) []byte {
	k := bytes.Clone(key)
	switch rng.IntN(3) {
	case 0:
		return k[:1+rng.IntN(len(k))]
	case 1:
		return append(k, byte(rng.IntN(2)))
	}
	k[rng.IntN(len(k))] += byte(rng.IntN(3))
	return k
}

func find(entries []base.Entry, key []byte, at base.SeqNum) (base.Entry, bool) {
	for _, e := range entries[lowerBound(entries, key):] {
		if !bytes.Equal(e.Key, key) {
			break
		}
		if e.Seq <= at {
			return e, true
		}
	}
	return base.Entry{}, false
}

func lowerBound(entries []base.Entry, key []byte) int {
	return sort.Search(len(entries), func(i int) bool { return bytes.Compare(entries[i].Key, key) >= 0 })
}

func checkScans(r *Reader, entries []base.Entry, rng *rand.Rand, fail failer) {
	var it Iter
	for range 12 {
		o := IterOptions{Reverse: rng.IntN(2) == 0, KeysOnly: rng.IntN(3) == 0, Unmapped: rng.IntN(3) == 0}
		it.Init(r, o)
		for range 3 {
			var key []byte
			if rng.IntN(4) > 0 && len(entries) > 0 {
				key = near(rng, entries[rng.IntN(len(entries))].Key)
			}
			it.Seek(key)
			got, err := drain(&it, rng, []int{3, 80, 1 << 30}[rng.IntN(3)])
			if err != nil {
				fail("%+v from %.60q: %v", o, key, err)
			}
			if o.KeysOnly { // only the lengths of the values are defined
				for i := range got {
					got[i].Value = make([]byte, len(got[i].Value))
				}
			}
			want := expect(entries, key, o, len(got))
			if len(got) == 0 && len(expect(entries, key, o, 1)) > 0 {
				fail("%+v from %.60q shows nothing", o, key)
			}
			if i := firstDifference(got, want); i >= 0 {
				fail("%+v from %.60q, entry %d: got %s, want %s", o, key, i, describe(got[i]), describe(want[i]))
			}
		}
	}
	it.Init(r, IterOptions{})
	it.Seek(nil)
	if got, err := drain(&it, rng, 1<<30); err != nil || len(got) != len(entries) {
		fail("a scan shows %d entries, %v", len(got), err)
	}
}

func expect(entries []base.Entry, key []byte, o IterOptions, n int) []base.Entry {
	i := lowerBound(entries, key)
	part := slices.Clone(entries[i:])
	if o.Reverse {
		if key == nil {
			i = len(entries)
		}
		part = slices.Clone(entries[:i])
		slices.Reverse(part)
	}
	part = part[:min(n, len(part))]
	for j := range part {
		if o.KeysOnly {
			part[j].Value = make([]byte, len(part[j].Value))
		}
	}
	return part
}

func firstDifference(got, want []base.Entry) int {
	for i := range got {
		if i >= len(want) || !sameEntry(got[i], want[i]) {
			return i
		}
	}
	return -1
}
