package table

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/testing/dose"
)

// reseal gives a damaged table valid checksums, like an attacker. It reports false
// if the footer is invalid.
func reseal(data []byte) bool {
	size := int64(len(data))
	if size < footerSize {
		return false
	}
	tail := data[size-footerSize:]
	le := binary.LittleEndian
	le.PutUint64(tail, magic)
	salt := le.Uint64(tail[16:])
	seal := func() { le.PutUint64(tail[footerSize-8:], partSum(salt, tail[:footerSize-8], size-footerSize)) }
	seal()
	f, err := decodeFooter(tail, size)
	if err != nil {
		return false
	}
	sums := data[f.sumsOff():f.fencesOff()]
	put := func(i int64, off, n int64) {
		if off >= 0 && n >= 0 && off <= size-n {
			le.PutUint64(sums[sumSize*i:], f.sumOf(data[off:off+n], off))
		}
	}
	for b := range f.blocks {
		e := decodeBlockEntry(data[f.directoryOff()+b*blockEntrySize:])
		put(b, e.keyOff, int64(e.keyLen))
		put(f.blocks+b, e.valOff, int64(e.valLen))
	}
	for p := range int64(f.hash.pages()) {
		at := f.hashOff() + p*pageSize
		put(2*f.blocks+p, at, min(pageSize, f.sumsOff()-at))
	}
	for i, s := range []span{
		{f.sumsOff(), f.fencesOff()}, {f.fencesOff(), f.directoryOff()},
		{f.directoryOff(), f.delsOff()}, {f.delsOff(), f.propsOff()}, {f.propsOff(), f.footerOff()},
	} {
		le.PutUint64(tail[80+8*i:], f.sumOf(data[s.from:s.to], s.from))
	}
	seal()
	return true
}

// exercise reads data as a table in every way. It demands only that nothing panics,
// that errors are of the right kind, and that the output is no larger than the file
// allows.
func exercise(t *testing.T, data []byte, entries []base.Entry) {
	r, err := openBytes(t, data, ReaderOptions{})
	if err != nil {
		mustBeCorrupt(t, err)
		return
	}
	defer func() { _ = r.Close() }()
	mustBeCorrupt(t, r.Verify())
	rng := rand.New(rand.NewPCG(1, 1))
	for _, o := range []IterOptions{{}, {Reverse: true}, {Unmapped: true}, {KeysOnly: true}, {Unmapped: true, Reverse: true}} {
		it := r.NewIter(o)
		it.Seek(nil)
		_, err := drain(it, rng, 1<<16)
		mustBeCorrupt(t, err)
		for _, e := range entries {
			it.Seek(e.Key)
			_, err := drain(it, rng, 3)
			mustBeCorrupt(t, err)
		}
	}
	for i := range r.Deletions().Len() {
		f := r.Deletions().At(i)
		if r.Deletions().Cover(f.Lo, base.SeqNumMax) != f.Seqs[0] {
			t.Fatalf("the deletion at %q is not found", f.Lo)
		}
	}
	for _, e := range entries {
		_, err := r.Newest(hashOf(e.Key), e.Seq)
		mustBeCorrupt(t, err)
		_, err = r.RangeNewer(e.Key, entries[len(entries)-1].Key, e.Seq, nil)
		mustBeCorrupt(t, err)
		for _, at := range []base.SeqNum{e.Seq, e.Seq - 1, base.SeqNumMax} {
			_, _, _, _, err := r.Get(e.Key, hashOf(e.Key), at, nil)
			mustBeCorrupt(t, err)
		}
	}
}

func mustBeCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("%v is not ErrCorrupt", err)
	}
}

// FuzzTableOpen opens a fuzzed table, with the fuzzed checksums or with valid ones.
func FuzzTableOpen(f *testing.F) {
	var entries []base.Entry
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		var data []byte
		entries, data = smallTable(f, how)
		f.Add(data, true)
		f.Add(data, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		data = slices.Clone(data)
		if seal && !reseal(data) {
			return
		}
		exercise(t, data, entries)
	})
}

// FuzzBlockDecode checks a key part and, if it is valid, reads all of it.
func FuzzBlockDecode(f *testing.F) {
	_, data := smallTable(f, codec.None)
	foot, err := decodeFooter(data[len(data)-footerSize:], int64(len(data)))
	if err != nil {
		f.Fatal(err)
	}
	for b := range foot.blocks {
		e := data[foot.directoryOff()+b*blockEntrySize:][:blockEntrySize]
		d := decodeBlockEntry(e)
		f.Add(e, data[d.keyOff:d.keyOff+int64(d.keyLen)])
	}
	f.Fuzz(func(t *testing.T, entry, part []byte) {
		if len(entry) != blockEntrySize {
			return
		}
		e := decodeBlockEntry(entry)
		if again := e.appendTo(nil); binary.LittleEndian.Uint16(entry[30:])>>15 == 0 && !slices.Equal(again, entry) {
			t.Fatalf("%x encodes as %x", entry, again)
		}
		e.keyLen, e.keyOff, e.valOff = uint32(len(part)), 0, 0
		if mustBeCorrupt(t, e.check(entry, 0, 1<<40)); e.check(entry, 0, 1<<40) != nil {
			return
		}
		v := makeView(e, part, 0)
		if err := v.check(); err != nil {
			mustBeCorrupt(t, err)
			return
		}
		readAll(t, &v)
	})
}

func readAll(t *testing.T, v *view) {
	end := 0
	for i := range v.count {
		key := v.appendKey(nil, i)
		if len(key) == 0 || len(key) > base.MaxKeySize || !v.is(key, i) {
			t.Fatalf("key %d is %q", i, key)
		}
		from, to := v.valueSpan(i)
		if from != end || to < from {
			t.Fatalf("value %d is [%d,%d) after %d", i, from, to, end)
		}
		end = to
		if v.seq(i) > base.SeqNumMax || !storable(v.meta(i).Kind) {
			t.Fatalf("entry %d: %d %v", i, v.seq(i), v.meta(i))
		}
		_ = v.search(key, v.seq(i))
		_ = v.head(i)
	}
	if int64(end) != v.rawLen() {
		t.Fatalf("values end at %d of %d", end, v.rawLen())
	}
}

// The checksums are right. Reads do not look at what is wrong.
func TestVerify_FindsMetadataThatNoWriterMakes(t *testing.T) {
	t.Parallel()
	verify := func(name string, data []byte, sound bool) {
		t.Helper()
		if err := mustOpen(t, data, ReaderOptions{}).Verify(); (err == nil) != sound || err != nil && !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	entry := func(key string, m base.Meta) base.Entry { return base.Entry{Key: []byte(key), Seq: 5, Meta: m} }
	for name, m := range map[string]base.Meta{
		"a partial entry that expires":       {Kind: base.KindMerge, ExpiresAt: 1000},
		"a partial entry with a user's byte": {Kind: base.KindRenew, User: 1},
	} {
		data, _ := mustBuild(t, []base.Entry{entry("a", m)}, WriterOptions{Salt: 3})
		verify(name, data, false)
	}
	data, _ := mustBuild(t, []base.Entry{entry("a", base.Meta{Kind: base.KindSet, ExpiresAt: 1000}), entry("b", base.Meta{Kind: base.KindSet}),
		entry("c", base.Meta{Kind: base.KindSet, ExpiresAt: 2000})}, WriterOptions{Salt: 3})
	verify("a block in which one entry does not expire", data, true)
	f, err := decodeFooter(data[len(data)-footerSize:], int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	e := decodeBlockEntry(data[f.directoryOff():])
	v := makeView(e, data[e.keyOff:e.keyOff+int64(e.keyLen)], 0)
	v.part[v.oExpiries+v.expiries.bytes()] = 1
	if !reseal(data) {
		t.Fatal("the footer is invalid")
	}
	verify("an expiry of that entry", data, false)
}

// TestHostile_DamagedTablesAreErrors damages tables at random and gives them valid
// checksums. So it tests the code behind the checksums without a fuzzer.
func TestHostile_DamagedTablesAreErrors(t *testing.T) {
	t.Parallel()
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		entries, data := smallTable(t, how)
		pad := zeroPadding(t, data)
		for seed := range uint64(dose.Short(60, 300)) {
			rng := rand.New(rand.NewPCG(seed, 3))
			bad := slices.Clone(data)
			for range 1 + rng.IntN(3) {
				at := rng.IntN(len(bad))
				if int64(at) >= pad.from && int64(at) < pad.to {
					at = len(bad) - 1 - rng.IntN(1200)
				}
				bad[at] = []byte{0, 0xff, bad[at] + 1, bad[at] ^ 1<<rng.IntN(8)}[rng.IntN(4)]
			}
			if reseal(bad) {
				exercise(t, bad, entries)
			}
		}
	}
}
