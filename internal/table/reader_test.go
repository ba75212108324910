package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/testing/noise"
)

// manyEntries returns entries whose keys are the even numbers from 0 on.
func manyEntries(n int) []base.Entry {
	var out []base.Entry
	for i := range n {
		e := set(fmt.Sprintf("key-%08d", 2*i), base.SeqNum(1+i%7))
		e.Value = bytes.Repeat([]byte{byte(i)}, 100)
		out = append(out, e)
	}
	return out
}

func TestReader_ConcurrentUse(t *testing.T) {
	t.Parallel()
	entries := manyEntries(3000)
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		data, _ := mustBuild(t, entries, WriterOptions{Compression: how})
		r := mustOpen(t, data, ReaderOptions{})
		var wg sync.WaitGroup
		for g := range uint64(6) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(g, 1))
				for range 300 {
					e := entries[rng.IntN(len(entries))]
					v, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), 10, nil)
					if err != nil || !ok || !bytes.Equal(v, e.Value) {
						t.Errorf("get %s: %v, %v", e.Key, ok, err)
						return
					}
				}
				it := r.NewIter(IterOptions{Reverse: g%2 == 1, Unmapped: g%3 == 0})
				it.Seek(nil)
				got, err := drain(it, rng, 1<<20)
				if err != nil || len(got) != len(entries) {
					t.Errorf("%d entries, %v", len(got), err)
				}
				if g == 5 {
					if err := r.DropPages(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := r.Verify(); err != nil {
			t.Error(err)
		}
	}
}

func TestReader_AllocatesNothing(t *testing.T) {
	entries := manyEntries(3000)
	data, _ := mustBuild(t, entries, WriterOptions{})
	r := mustOpen(t, data, ReaderOptions{})
	absent := []byte("key-00000001")
	n := 0
	if got := testing.AllocsPerRun(500, func() {
		e := &entries[n%len(entries)]
		n += 77
		if _, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), 10, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, _, _, ok, err := r.Get(absent, hashOf(absent), 10, nil); ok || err != nil {
			t.Fatal(ok, err)
		}
	}); got != 0 && !invariant.Enabled { // invariant checks allocate
		t.Errorf("a get allocates %v times", got)
	}
	for _, o := range []IterOptions{{}, {Reverse: true}, {KeysOnly: true}, {Unmapped: true}} {
		it := r.NewIter(o)
		var b iter.Batch
		b.Want = iter.BatchSize
		if got := testing.AllocsPerRun(20, func() {
			it.Init(r, o)
			it.Seek(nil)
			seen := 0
			for b.N = 1; b.N > 0; seen += b.N {
				if err := it.Fill(&b); err != nil {
					t.Fatal(err)
				}
			}
			if seen != len(entries) {
				t.Fatalf("%+v: a scan shows %d of %d entries", o, seen, len(entries))
			}
		}); got != 0 && !invariant.Enabled {
			t.Errorf("%+v: a scan allocates %v times", o, got)
		}
	}
}

// Blocks of entries with different flags have a column of flags.
func TestKeysOnly_ReadsOnlyValuesOfBlocksWithPointers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(i int, e *base.Entry)
		reads  bool
	}{
		"all alike":     {func(int, *base.Entry) {}, false},
		"some expire":   {func(i int, e *base.Entry) { e.Meta.ExpiresAt = uint64(i%20/19) * 1e12 }, false},
		"some deleted":  {func(i int, e *base.Entry) { e.Meta.Kind = kindOneIn(20, i, base.KindDelete) }, false},
		"one in a file": {func(i int, e *base.Entry) { e.Meta.Kind = kindOneIn(500, i, base.KindPointer) }, true},
		"one in a file that expires": {func(i int, e *base.Entry) {
			e.Meta.Kind, e.Meta.ExpiresAt = kindOneIn(500, i, base.KindPointer), uint64(i%500/499)*1e12
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := manyEntries(500)
			for i := range entries {
				if c.change(i, &entries[i]); entries[i].Meta.Kind == base.KindDelete {
					entries[i].Value = nil
				}
			}
			r := mustOpen(t, withBadValues(t, entries), ReaderOptions{})
			for _, o := range []IterOptions{{KeysOnly: true}, {KeysOnly: true, Unmapped: true}, {KeysOnly: true, Reverse: true}, {}} {
				it := r.NewIter(o)
				it.Seek(nil)
				got, err := drain(it, rand.New(rand.NewPCG(1, 1)), 1<<20)
				if reads := err != nil || len(got) != len(entries); reads != (c.reads || !o.KeysOnly) {
					t.Errorf("%+v: %d entries, %v", o, len(got), err)
				}
			}
		})
	}
}

// kindOneIn returns kind for the last entry of each group of that many, else KindSet.
func kindOneIn(n, i int, kind base.Kind) base.Kind {
	if i%n == n-1 {
		return kind
	}
	return base.KindSet
}

// withBadValues returns a table with damaged values in each block.
func withBadValues(t *testing.T, entries []base.Entry) []byte {
	t.Helper()
	data, _ := mustBuild(t, entries, WriterOptions{})
	foot, err := decodeFooter(data[len(data)-footerSize:], int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for b := range foot.blocks {
		e := decodeBlockEntry(data[foot.directoryOff()+b*blockEntrySize:])
		data[e.valOff] ^= 1
	}
	return data
}

// A merge relies on values that survive the next Fill.
func TestUnmapped_ValuesSurviveTheNextFill(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	var entries []base.Entry
	for i := range 400 {
		e := set(fmt.Sprintf("key-%08d", i), 1)
		e.Value = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+rng.IntN(20_000))
		entries = append(entries, e)
	}
	for _, how := range []codec.ID{codec.None, codec.S2} {
		data, _ := mustBuild(t, entries, WriterOptions{Compression: how})
		r := mustOpen(t, data, ReaderOptions{})
		it := r.NewIter(IterOptions{Unmapped: true})
		it.Seek(nil)
		var b iter.Batch
		var last []base.Entry
		at := 0
		for {
			b.Want = 1 + rng.IntN(iter.BatchSize)
			if err := it.Fill(&b); err != nil {
				t.Fatal(err)
			}
			for i, e := range last {
				if want := entries[at-len(last)+i].Value; !bytes.Equal(e.Value, want) {
					t.Fatalf("the value of entry %d changed with the next Fill", at-len(last)+i)
				}
			}
			if b.N == 0 {
				break
			}
			last = slices.Clone(b.Entries[:b.N])
			at += b.N
		}
		if at != len(entries) {
			t.Errorf("%d of %d entries", at, len(entries))
		}
	}
}

func TestCache_CompressedBlockIsDecodedOnce(t *testing.T) {
	t.Parallel()
	entries := manyEntries(200)
	for _, how := range []codec.ID{codec.S2, codec.Zstd} {
		data, props := mustBuild(t, entries, WriterOptions{Compression: how})
		if props.ValuePartBytes > props.ValueBytes/2 {
			t.Errorf("%d bytes of values became %d", props.ValueBytes, props.ValuePartBytes)
		}
		blocks := cache.New(1 << 20)
		defer blocks.Close()
		r := mustOpen(t, data, ReaderOptions{Cache: blocks, CacheID: 3})
		for range 3 {
			v, _, _, ok, err := r.Get(entries[9].Key, hashOf(entries[9].Key), 10, nil)
			if !ok || err != nil || !bytes.Equal(v, entries[9].Value) {
				t.Fatal(ok, err)
			}
		}
		if s := blocks.Stats(); s.Misses != 1 || s.Hits != 2 {
			t.Errorf("%+v: three reads of one block, want one miss", s)
		}
	}
}

func TestCache_IterationBypassesIt(t *testing.T) {
	t.Parallel()
	entries := manyEntries(3000)
	data, _ := mustBuild(t, entries, WriterOptions{Compression: codec.S2})
	blocks := cache.New(1 << 20)
	defer blocks.Close()
	r := mustOpen(t, data, ReaderOptions{Cache: blocks, CacheID: 3})
	var b iter.Batch
	b.Want = iter.BatchSize
	it := r.NewIter(IterOptions{})
	it.Seek(nil)
	for n := 0; n < len(entries); n += b.N {
		if err := it.Fill(&b); err != nil || b.N == 0 {
			t.Fatal(n, err)
		}
	}
	if s := blocks.Stats(); s.Misses != 1 || s.Bytes > 2*blockSizeDefault {
		t.Errorf("%+v: a walk left more than the block that it began in", s)
	}
}

func TestCompression_ReadingAllocatesNothing(t *testing.T) {
	entries := manyEntries(3000)
	var arena codec.Arena
	for _, how := range []codec.ID{codec.S2, codec.Zstd} {
		data, _ := mustBuild(t, entries, WriterOptions{Compression: how})
		blocks := cache.New(1 << 20)
		defer blocks.Close()
		r := mustOpen(t, data, ReaderOptions{Cache: blocks})
		n := 0
		if got := testing.AllocsPerRun(500, func() {
			arena.Reset()
			e := &entries[n%len(entries)]
			n += 77
			if _, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), 10, &arena); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}); got != 0 && !invariant.Enabled {
			t.Errorf("codec %d: a get allocates %v times", how, got)
		}
	}
}

func TestCompression_RandomValuesStayUncompressed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	entries := manyEntries(3000)
	for i := range entries {
		entries[i].Value = noise.Bytes(rng, 128)
	}
	_, props := mustBuild(t, entries, WriterOptions{Compression: codec.S2})
	if props.ValuePartBytes != props.ValueBytes {
		t.Errorf("%d bytes of values became %d", props.ValueBytes, props.ValuePartBytes)
	}
	if perEntry := float64(props.Size-int64(props.ValueBytes)) / float64(props.Entries); perEntry > 14 {
		t.Errorf("a key of 12 bytes costs %.1f bytes", perEntry)
	}
}

// A reader that has verified a part may mark it only when the pages were given back.
func TestDropPages_TakesAMarkThatIsSetAfterIt(t *testing.T) {
	t.Parallel()
	data, _ := mustBuild(t, manyEntries(500), WriterOptions{})
	r := mustOpen(t, data, ReaderOptions{})
	for name, verified := range map[string]bitmap{"keys": r.keysOK, "values": r.valsOK, "a page of the index": r.pagesOK} {
		before := r.drops.Load()
		if err := r.DropPages(); err != nil {
			t.Fatal(err)
		}
		if r.mark(verified, 0, before); verified.has(0) {
			t.Errorf("%s: what was verified before the pages were given back counts", name)
		}
		if r.mark(verified, 0, r.drops.Load()); !verified.has(0) {
			t.Errorf("%s: what was verified after that does not count", name)
		}
	}
}
