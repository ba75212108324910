package log

import (
	"errors"
	"io"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// followed reads the log of d on the given disk as a follower does. It returns the number
// of the first transaction that is not there, and the damage that the follower finds.
func (d *workload) followed(disk *memfs.FS, spans []base.LogSpan) (next int, err error) {
	o := d.o
	o.FS = disk
	f := Follow(o, spans)
	defer f.Close()
	next = d.first
	for {
		p, err := f.Next()
		if err == io.EOF {
			return next, f.Damaged()
		}
		if err == nil {
			err = collect(&next)(p)
		}
		if err != nil {
			return next, err
		}
	}
}

func TestFollow_FindsWhatIsWrittenAndNoDamageAtAnyTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		d := newWorkload(t, seed)
		d.open()
		for i := range 300 {
			d.step()
			if n, err := d.followed(d.disk, d.spans); err != nil || n < d.flushed || n > d.built {
				t.Fatalf("seed %d, step %d: %d transactions, want %d to %d: %v", seed, i, n, d.flushed, d.built, err)
			}
		}
	}
}

// rotated returns a log of several segments, and where the frame lies that ends the first.
func rotated(t *testing.T) (d *workload, at int64) {
	d = newWorkload(t, 1)
	d.open()
	for {
		at = d.w.b.Offset()
		if d.append(); d.w.Segment() > d.w.First().Number {
			break
		}
	}
	must(t, d.w.Flush())
	return d, at
}

func TestFollow_DamageToTheEndOfASegmentIsFound(t *testing.T) {
	t.Parallel()
	d, at := rotated(t)
	for i := range record.FrameSize(successorSize) {
		disk := d.flip(d.w.First().File, at+i, int(i%8))
		n, err := d.followed(disk, d.spans)
		if !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("byte %d of the frame that names the next segment was changed: %d transactions, %v", i, n, err)
		}
		if _, _, err := d.recovered(disk, d.spans); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("byte %d: recovery says %v", i, err)
		}
	}
}

func TestFollow_AnOlderCopyUnderTheSealIsFound(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	d.append()
	must(t, d.w.Close())
	sealed := append(d.spans[:len(d.spans)-1:len(d.spans)-1], d.w.Span())
	if n, err := d.followed(d.disk, sealed); err != nil || n != 1 {
		t.Fatalf("%d transactions: %v", n, err)
	}
	before := sealed[len(sealed)-1]
	sealed[len(sealed)-1].EndChain++
	if _, err := d.followed(d.disk, sealed); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("the newest span: %v", err)
	}
	d.spans, d.acked = append(d.spans[:len(d.spans)-1:len(d.spans)-1], before), d.built
	d.open()
	d.append()
	d.sync()
	d.spans[0].EndChain++
	if _, err := d.followed(d.disk, d.spans); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("an older span: %v", err)
	}
}

func TestWithin_TellsWhetherTheSegmentIsNeeded(t *testing.T) {
	t.Parallel()
	at := func(number uint64) base.SegmentRef {
		return base.SegmentRef{Number: number, File: number, Salt: number}
	}
	sealed := func(first, end uint64) base.LogSpan {
		return base.LogSpan{First: at(first), Sealed: true, EndNumber: end}
	}
	open := func(first uint64) base.LogSpan { return base.LogSpan{First: at(first)} }
	a, b, c := sealed(1, 3), sealed(5, 7), open(9)
	tests := []struct {
		what  string
		left  []base.LogSpan // of the follower
		in    uint64         // the segment that it reads
		spans []base.LogSpan // of the manifest
		want  bool
	}{
		{"nothing is written", nil, 0, nil, true},
		{"the first span", nil, 0, []base.LogSpan{c}, false},
		{"no change", []base.LogSpan{c}, 10, []base.LogSpan{c}, true},
		{"its first segment", []base.LogSpan{c}, 9, []base.LogSpan{c}, true},
		{"its first segment is free", []base.LogSpan{c}, 9, []base.LogSpan{open(10)}, false},
		{"an earlier one is free", []base.LogSpan{c}, 11, []base.LogSpan{open(10)}, true},
		{"older spans are needed", []base.LogSpan{c}, 10, []base.LogSpan{a, b, c}, true},
		{"the middle one of three", []base.LogSpan{b, c}, 6, []base.LogSpan{a, b, c}, true},
		{"the middle one is the first", []base.LogSpan{b, c}, 6, []base.LogSpan{b, c}, true},
		{"the middle one is shorter", []base.LogSpan{b, c}, 5, []base.LogSpan{sealed(6, 7), c}, false},
		{"the middle one is free", []base.LogSpan{b, c}, 6, []base.LogSpan{c}, false},
		{"another span", []base.LogSpan{open(5)}, 6, []base.LogSpan{b, c}, false},
		{"it was sealed before", []base.LogSpan{open(5)}, 8, []base.LogSpan{b}, false},
		{"it was sealed behind", []base.LogSpan{open(5)}, 7, []base.LogSpan{b}, true},
	}
	for _, x := range tests {
		f := Follow(Options{}, x.left)
		f.ref = at(x.in)
		if got := f.Within(x.spans); got != x.want {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
}
