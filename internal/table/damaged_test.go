package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/testing/dose"
)

// rescue reads all entries that verify, and demands that they are in order.
func rescue(t *testing.T, data []byte, hint *Hint) (entries []base.Entry, lost []Lost, d *Damaged) {
	t.Helper()
	d, err := OpenDamaged(bytes.NewReader(data), int64(len(data)), "t", hint)
	if err != nil {
		mustBeCorrupt(t, err)
		return nil, nil, nil
	}
	_ = d.Sections()
	_, _, _ = d.Bounds()
	it := d.NewIter(func(l Lost) {
		mustBeCorrupt(t, l.Err)
		lost = append(lost, l)
	})
	for batch := it.Next(); batch != nil; batch = it.Next() {
		for _, e := range batch {
			if n := len(entries); n > 0 {
				last := &entries[n-1]
				if c := bytes.Compare(last.Key, e.Key); c > 0 || c == 0 && last.Seq <= e.Seq {
					t.Fatalf("%q#%d follows %q#%d", e.Key, e.Seq, last.Key, last.Seq)
				}
			}
			e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
			entries = append(entries, e)
		}
	}
	return entries, lost, d
}

// FuzzDamaged reads what verifies of a fuzzed table, with the fuzzed checksums or with
// valid ones.
func FuzzDamaged(f *testing.F) {
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		_, data := smallTable(f, how)
		f.Add(data, true, true)
		f.Add(data[:len(data)-8], false, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, seal, hinted bool) {
		data = slices.Clone(data)
		if seal {
			reseal(data)
		}
		var hint *Hint
		if hinted && len(data) > footerSize {
			hint = &Hint{Salt: uint64(data[len(data)-footerSize+16])}
		}
		rescue(t, data, hint)
	})
}

func mustEqual(t *testing.T, got, want []base.Entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
			t.Fatalf("entry %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// One wrong bit outside of blocks loses nothing, whether or not the manifest is there.
func TestDamaged_OneWrongBitOfAnIndexLosesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []codec.ID{codec.None, codec.Zstd} {
		_, data := smallTable(t, how)
		want, lost, d := rescue(t, data, nil)
		if len(want) == 0 || len(lost) > 0 {
			t.Fatalf("of an intact table %d entries are there, and lost is %+v", len(want), lost)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for at := int(d.dataEnd); at < len(data); at++ {
			if at >= int(d.sumsOff()) || rng.IntN(50) == 0 {
				bad := slices.Clone(data)
				bad[at] ^= 1 << rng.IntN(8)
				got, lost, d := rescue(t, bad, nil)
				if d == nil || len(lost) > 0 || len(d.Problems) > 0 {
					t.Fatalf("a wrong bit at %d of %d loses %+v", at, len(data), lost)
				}
				mustEqual(t, got, want)
				if fmt.Sprint(d.Deletions()) != fmt.Sprint(rescuedDeletions(t, data)) {
					t.Fatalf("a wrong bit at %d changes the range tombstones", at)
				}
			}
		}
	}
}

// A directory above 4 KiB is too long to try each of its bits. One wrong bit of the flags of
// an entry loses nothing all the same.
func TestDamaged_OneWrongBitOfFlagsInALongDirectoryLosesNothing(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range 800 { // four in a block
		entries = append(entries, base.Entry{
			Key: fmt.Appendf(nil, "%06d", i), Value: fmt.Appendf(nil, "%020d", i), Seq: 1, Meta: base.Meta{Kind: base.KindSet},
		})
	}
	data, _ := mustBuild(t, entries, WriterOptions{Salt: 77, BlockSize: 64})
	got, lost, intact := rescue(t, data, nil)
	if len(lost) > 0 || len(intact.directory) <= 4<<10 {
		t.Fatalf("of an intact table with %d bytes of directory, lost is %+v", len(intact.directory), lost)
	}
	mustEqual(t, got, entries)
	for _, b := range []int64{0, intact.blocks / 2, intact.blocks - 1} {
		for bit := range 8 {
			bad := slices.Clone(data)
			bad[intact.directoryOff()+b*blockEntrySize+7] ^= 1 << bit
			got, lost, d := rescue(t, bad, nil)
			if d == nil || len(lost) > 0 || len(d.Problems) > 0 || !d.proven {
				t.Fatalf("wrong bit %d of the flags of block %d loses %+v", bit, b, lost)
			}
			mustEqual(t, got, entries)
		}
	}
}

func rescuedDeletions(t *testing.T, data []byte) any {
	_, _, d := rescue(t, data, nil)
	return d.Deletions()
}

// Random damage to any part never shows an entry that was not written.
func TestDamaged_NeverShowsWhatWasNotWritten(t *testing.T) {
	t.Parallel()
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		_, data := smallTable(t, how)
		written := map[string]bool{}
		want, _, d := rescue(t, data, nil)
		for _, e := range want {
			written[fmt.Sprint(e)] = true
		}
		hints := []*Hint{nil, {Salt: d.salt, Counts: d.counts}}
		some := 0
		for seed := range uint64(dose.Short(40, 150)) {
			rng := rand.New(rand.NewPCG(seed, 9))
			bad := slices.Clone(data)
			from := rng.IntN(len(bad))
			if rng.IntN(2) == 0 {
				from = len(bad) - 1 - rng.IntN(1500)
			}
			for i := range min(1+rng.IntN(512), len(bad)-from) {
				bad[from+i] = byte(rng.Uint32())
			}
			got, _, _ := rescue(t, bad, hints[rng.IntN(2)])
			some += len(got)
			for _, e := range got {
				if !written[fmt.Sprint(e)] {
					t.Fatalf("seed %d: entry %v was never written", seed, e)
				}
			}
		}
		if some == 0 {
			t.Error("no entry was ever left")
		}
	}
}

func TestDamaged_FindsTheDirectoryWithoutAFooter(t *testing.T) {
	t.Parallel()
	_, data := smallTable(t, codec.S2)
	want, _, d := rescue(t, data, nil)
	cut := data[:d.delsOff()]
	if _, _, d := rescue(t, cut, nil); d != nil {
		t.Error("a table without footer and salt opens")
	}
	got, lost, _ := rescue(t, cut, &Hint{Salt: d.salt, Counts: d.counts})
	if len(lost) > 0 {
		t.Errorf("lost without a footer: %+v", lost)
	}
	mustEqual(t, got, want)
}

func TestDamaged_BlocksAreLostAlone(t *testing.T) {
	t.Parallel()
	_, data := smallTable(t, codec.None)
	want, _, d := rescue(t, data, nil)
	if d.blocks < 2 {
		t.Fatalf("the table has %d blocks, want more", d.blocks)
	}
	for b := range int(d.blocks) {
		info := d.Block(b)
		bad := slices.Clone(data)
		bad[info.KeyOffset+info.KeyLength/2] ^= 4
		got, lost, _ := rescue(t, bad, nil)
		if len(got) != len(want)-info.Count || len(lost) != 1 || lost[0].Entries != uint64(info.Count) {
			t.Errorf("block %d of %d entries is damaged: %d of %d are left, and lost is %+v", b, info.Count, len(got), len(want), lost)
		}
		for _, e := range info.Entries {
			l := &lost[0]
			if bytes.Compare(e.Key, l.From) < 0 || l.To != nil && bytes.Compare(e.Key, l.To) > 0 {
				t.Errorf("key %q is lost and not in %q to %q", e.Key, l.From, l.To)
			}
		}
	}
}
