package table

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// TestShift_MovesEveryVersion reads a table as if each version were seven higher.
func TestShift_MovesEveryVersion(t *testing.T) {
	t.Parallel()
	const shift = 7
	var entries []base.Entry
	for i := range 500 {
		for _, seq := range []base.SeqNum{3, 0}[i%2:] {
			entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "key%04d", i), Value: fmt.Appendf(nil, "%d", seq),
				Seq: seq, Meta: base.Meta{Kind: base.KindSet}})
		}
	}
	data, _ := mustBuild(t, entries, WriterOptions{})
	r, err := openBytes(t, data, ReaderOptions{SeqShift: shift})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	if p := r.Properties(); p.SmallestSeq != shift || p.LargestSeq != 3+shift {
		t.Errorf("versions %d to %d", p.SmallestSeq, p.LargestSeq)
	}
	for _, c := range []struct {
		key  string
		at   base.SeqNum
		want base.SeqNum // 0: none
	}{{"key0000", 6, 0}, {"key0000", 7, 7}, {"key0000", 9, 7}, {"key0000", 10, 10}, {"key0001", 6, 0}, {"key0001", 7, 7}, {"key0001", 99, 7}} {
		value, _, seq, ok, err := r.Get([]byte(c.key), hashOf([]byte(c.key)), c.at, nil)
		if err != nil || ok != (c.want != 0) || ok && (seq != c.want || string(value) != fmt.Sprint(c.want-shift)) {
			t.Errorf("%s at %d: %q#%d, %v, %v", c.key, c.at, value, seq, ok, err)
		}
	}
	for since, want := range map[base.SeqNum]bool{6: true, 7: false} {
		newest, err := r.Newest(hashOf([]byte("key0001")), since)
		ranged, err2 := r.RangeNewer([]byte("key0001"), []byte("key0002"), since, nil)
		if newest != want || ranged != want || err != nil || err2 != nil {
			t.Errorf("newer than %d: key %v, range %v, want %v; %v %v", since, newest, ranged, want, err, err2)
		}
	}
	for _, o := range []IterOptions{{}, {Unmapped: true}, {Reverse: true}} {
		it := r.NewIter(o)
		it.Seek(nil)
		b, n := iter.Batch{Want: iter.BatchSize}, 0
		for err := it.Fill(&b); b.N > 0 && err == nil; err = it.Fill(&b) {
			for i := range b.N {
				if fmt.Sprint(b.Entries[i].Seq-shift) != string(b.Entries[i].Value) {
					t.Errorf("%+v: %s#%d has the value %s", o, b.Entries[i].Key, b.Entries[i].Seq, b.Entries[i].Value)
				}
			}
			n += b.N
		}
		if n != len(entries) {
			t.Errorf("%+v shows %d of %d", o, n, len(entries))
		}
	}
}

func TestShift_RefusesVersionsThatAreTooLargeAndRangeTombstones(t *testing.T) {
	t.Parallel()
	entry := []base.Entry{{Key: []byte("k"), Seq: 3, Meta: base.Meta{Kind: base.KindSet}}}
	data, _ := mustBuild(t, entry, WriterOptions{})
	if r, err := openBytes(t, data, ReaderOptions{SeqShift: base.SeqNumMax - 3}); err != nil {
		t.Error(err)
	} else {
		_ = r.Close()
	}
	if _, err := openBytes(t, data, ReaderOptions{SeqShift: base.SeqNumMax - 2}); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a shift beyond the last version: %v", err)
	}
	data, _ = mustBuildWith(t, entry, rangedel.Merge(deletionOf("a", "b", 2)), WriterOptions{})
	if _, err := openBytes(t, data, ReaderOptions{SeqShift: 1}); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a shifted range tombstone: %v", err)
	}
}
