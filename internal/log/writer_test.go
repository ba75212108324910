package log

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

func TestWriter_LargeTransactionStreamsInBoundedMemory(t *testing.T) {
	t.Parallel()
	o := testOptions(newTestDisk(t), 1)
	o.FrameSizeMax = 0
	w, spans, err := open(o, nil, nil)
	must(t, err)
	piece := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(piece)
	const pieces = 200
	must(t, w.Reserve(pieces*int64(len(piece))))
	w.Begin()
	most := 0
	for range pieces {
		w.Write(piece)
		sealed, _ := w.b.Sealed()
		most = max(most, cap(sealed))
	}
	w.End()
	must(t, w.Close())
	if most > 4<<20 {
		t.Fatalf("a buffer of %d bytes for a transaction of %d", most, pieces*len(piece))
	}
	got := 0
	_, err = recoverAll(o, spans, func(p []byte) error {
		got = len(p)
		for len(p) > 0 && bytes.HasPrefix(p, piece) {
			p = p[len(piece):]
		}
		if len(p) > 0 {
			return errors.New("not what was written")
		}
		return nil
	})
	if err != nil || got != pieces*len(piece) {
		t.Fatalf("%d bytes replayed: %v", got, err)
	}
}

func TestReplay_DropsATransactionWithoutItsLastFrame(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	d.append()
	d.sync()
	p := make([]byte, 3000)
	must(t, d.w.Reserve(int64(len(p))))
	d.w.Begin()
	d.w.Write(p)
	must(t, d.w.Flush())
	must(t, d.w.Sync())
	d.checkCrash(d.disk.Clone(), "half a transaction on the device")
	// It does not come back behind the next record.
	d.built = d.acked
	d.open()
	d.append()
	d.sync()
	d.checkCrash(d.disk.Clone(), "a transaction after it")
}

func TestIdle_LogIsSmall(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	o := Options{FS: disk, Dir: testDir, Random: rand.New(rand.NewPCG(1, 1)).Uint64}
	var spans []base.LogSpan
	next := 0
	for range 5 {
		w, s, err := open(o, spans, collect(&next))
		must(t, err)
		spans = s
		must(t, w.Release(spans[0].First.Number))
		must(t, w.Close())
	}
	if used := disk.UsedBytes(); used > 1<<20 {
		t.Fatalf("%d bytes for an empty log", used)
	}
	if len(spans) != 1 {
		t.Fatalf("%d spans for an empty log", len(spans))
	}
}

// fillAndShrink makes a log large, and then frees all but a small segment.
func fillAndShrink(t *testing.T, w *Writer) {
	t.Helper()
	p := make([]byte, 100_000)
	for w.Stats().BytesOnDisk < 20<<20 {
		must(t, appendTx(w, p))
	}
	must(t, w.Shrink())
	must(t, w.Release(w.Segment()))
}

func TestIdle_ShrinkReleaseAndRestFreeTheDisk(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	o := Options{FS: disk, Dir: testDir, Random: rand.New(rand.NewPCG(1, 1)).Uint64, SegmentSizeMax: 4 << 20}
	w, _, err := open(o, nil, nil)
	must(t, err)
	fillAndShrink(t, w)
	spans := []base.LogSpan{{First: w.Current()}}
	must(t, w.Close())
	must(t, w.Trim())
	if used := disk.UsedBytes(); used > 1<<20 {
		t.Fatalf("%d bytes of an empty log", used)
	}
	r, err := recoverAll(o, spans, nil)
	if err != nil || r.Records != 0 {
		t.Fatalf("%d records: %v", r.Records, err)
	}
}

func TestRecycle_NumberOfFilesStaysBounded(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for range 2000 {
		d.append()
		if d.rng.IntN(30) == 0 {
			d.release()
		}
	}
	if files := readFiles(t, d.o); len(files) > 12 {
		t.Fatalf("%d files after %d rotations", len(files), d.w.Stats().Rotations)
	}
	s := d.w.Stats()
	if s.Rotations < 20 || s.FreeFiles > freeMax+1 {
		t.Fatalf("%+v", s)
	}
}

func TestRecycle_SmallFileIsWrittenInFullOnlyOnce(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	o := testOptions(disk, 1)
	o.SegmentSizeMin, o.SegmentSizeMax, o.FrameSizeMax = wholeSize, 2<<20, 0
	w, _, err := open(o, nil, nil)
	must(t, err)
	for range 10 {
		must(t, appendTx(w, make([]byte, 100_000)))
		must(t, w.Flush())
		must(t, w.Sync())
	}
	written := int64(0)
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpWrite {
			written += op.Len
		}
	})
	must(t, w.Shrink()) // as after a load
	if written < wholeSize {
		t.Errorf("%d bytes were written for a segment of %d", written, int64(wholeSize))
	}
	first := w.Current()
	for range 3 { // the last one finds a free file
		must(t, w.Release(w.Segment()))
		must(t, w.Close())
		must(t, w.Trim())
		span := w.Span()
		span.First = first
		r, err := recoverAll(o, []base.LogSpan{span}, nil)
		must(t, err)
		written = 0
		w, err = Create(o, r)
		must(t, err)
		first = w.First()
	}
	if written > record.Start {
		t.Errorf("%d bytes were written to begin a segment in a file that was free", written)
	}
	must(t, w.Close())
}

// syncCounter counts the calls that cost time on a device.
type syncCounter struct {
	syncs, dirSyncs int
}

func (c *syncCounter) count(op vfs.Op) {
	switch op.Kind {
	case vfs.OpSync, vfs.OpSyncData:
		c.syncs++
	case vfs.OpSyncDir:
		c.dirSyncs++
	}
}

func TestSync_OpeningAndCommittingTakeFew(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	var c syncCounter
	d.disk.SetHook(c.count)
	d.open()
	if c != (syncCounter{1, 1}) {
		t.Fatalf("the first Create takes %+v", c)
	}
	c = syncCounter{}
	for range 3 {
		d.append()
		d.sync()
	}
	if c != (syncCounter{3, 0}) {
		t.Fatalf("three commits take %+v", c)
	}
	must(t, d.w.Sync())
	if c.syncs != 3 {
		t.Fatal("a Sync with nothing to sync takes one")
	}
	c = syncCounter{}
	must(t, d.w.Close())
	if c != (syncCounter{1, 0}) {
		t.Fatalf("Close takes %+v", c)
	}
	c = syncCounter{}
	d.acked = d.built
	d.open()
	if c != (syncCounter{1, 1}) {
		t.Fatalf("Create after a clean close takes %+v", c)
	}
}

func TestWriteAhead_UnlessSyncsAreLarge(t *testing.T) {
	t.Parallel()
	for _, bulk := range []bool{false, true} {
		disk := newTestDisk(t)
		o := testOptions(disk, 1)
		o.SegmentSizeMin, o.SegmentSizeMax, o.FrameSizeMax = 1<<20, 1<<20, 0
		w, _, err := open(o, nil, nil)
		must(t, err)
		size := 100
		if bulk {
			size = 400 << 10
		}
		var zeros int64
		disk.SetHook(func(op vfs.Op) {
			if op.Kind == vfs.OpWrite && op.Path != o.path(w.Current().File) {
				zeros += op.Len
			}
		})
		for w.Stats().Rotations < 4 {
			must(t, appendTx(w, make([]byte, size)))
			must(t, w.Flush())
			must(t, w.Sync())
			must(t, w.Release(w.Segment()-min(w.Segment(), 2)))
		}
		disk.SetHook(nil)
		if ahead := zeros > 512<<10; ahead == bulk {
			t.Fatalf("bulk %v: %d bytes were written ahead", bulk, zeros)
		}
	}
}

func TestWriteAhead_RecycledSegmentBeforeSmallCommits(t *testing.T) {
	t.Parallel()
	const size, block = 1 << 20, 4096
	for _, killed := range []bool{false, true} {
		disk := newTestDisk(t)
		o := testOptions(disk, 1)
		o.SegmentSizeMin, o.SegmentSizeMax, o.FrameSizeMax = size, size, 0
		written := map[string]map[int64]bool{} // blocks by file
		small, headers := false, 0
		disk.SetHook(func(op vfs.Op) {
			switch {
			case op.Kind == vfs.OpRemove:
				delete(written, op.Path)
			case op.Kind != vfs.OpWrite:
			case op.Off > 0:
				if written[op.Path] == nil {
					written[op.Path] = map[int64]bool{}
				}
				for at := op.Off / block; at <= (op.Off+op.Len-1)/block; at++ {
					written[op.Path][at] = true
				}
			case small:
				headers++
				if n := len(written[op.Path]); n != (size-record.Start)/block {
					t.Errorf("killed %v: %d blocks of %s were written before its header", killed, n, op.Path)
				}
			}
		})
		w, _, err := open(o, nil, nil)
		must(t, err)
		commit := func(n int) {
			must(t, appendTx(w, make([]byte, n)))
			must(t, w.Flush())
			must(t, w.Sync())
			must(t, w.Release(w.Segment()))
		}
		for w.Stats().Rotations < 6 {
			commit(400 << 10) // two per segment; its end stays as prepared
		}
		if killed {
			small = true
			w, _, err = open(o, []base.LogSpan{{First: w.Current()}}, func([]byte) error { return nil })
			must(t, err)
		}
		for range 50 {
			commit(4000) // until the mean is small
		}
		small = true
		for until := w.Stats().Rotations + 4; w.Stats().Rotations < until; {
			commit(4000)
		}
		if headers < 3 { // one may have been prepared earlier
			t.Errorf("killed %v: %d segments were begun", killed, headers)
		}
		disk.SetHook(nil)
		must(t, w.Close())
	}
}

func TestReserve_MissingReserveIsAnError(t *testing.T) {
	t.Parallel()
	o := testOptions(newTestDisk(t), 1)
	w, _, err := open(o, nil, nil)
	must(t, err)
	if err := w.Reserve(-1); err == nil || w.Err() != nil {
		t.Fatalf("Reserve(-1): %v; poisoned: %v", err, w.Err())
	}
	if invariant.Enabled {
		t.Skip("then the mistake is a panic")
	}
	w.Begin()
	w.Write(make([]byte, 2*o.SegmentSizeMax))
	w.End()
	if err := w.Flush(); !errors.Is(err, errOverrun) {
		t.Fatalf("%v", err)
	}
	if err := w.Close(); !errors.Is(err, errOverrun) {
		t.Fatalf("Close: %v", err)
	}
}

func TestOptions_OutOfRangeAreNamed(t *testing.T) {
	t.Parallel()
	good := testOptions(newTestDisk(t), 1)
	bad := map[string]func(o *Options){
		"FS":             func(o *Options) { o.FS = nil },
		"Random":         func(o *Options) { o.Random = nil },
		"SegmentSizeMin": func(o *Options) { o.SegmentSizeMin = 4096 },
		"SegmentSizeMax": func(o *Options) { o.SegmentSizeMax = 8192 },
		"FrameSizeMax":   func(o *Options) { o.FrameSizeMax = record.MaxPayload + 1 },
	}
	for field, spoil := range bad {
		o := good
		spoil(&o)
		_, err := recoverAll(o, nil, nil)
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestFileName_ParsedStrictly(t *testing.T) {
	t.Parallel()
	for _, file := range []uint64{0, 1, 999_999, 1_000_000, record.NumberMax} {
		got, ok := ParseFileName(FileName(file))
		if !ok || got != file {
			t.Errorf("%s: %d, %v", FileName(file), got, ok)
		}
	}
	for _, name := range []string{"", ".log", "1.log", "0000001.log", "000001.LOG", "000001.log.tmp",
		"-00001.log", "+00001.log", "18446744073709551615.log", "MANIFEST-000001"} {
		if _, ok := ParseFileName(name); ok {
			t.Errorf("%q is taken for a log file", name)
		}
	}
}

func TestBoundaries_KeepOneBelowTheDurableOffset(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	b := boundaries{startOf(1)}
	all := []int64{record.Start}
	durable := int64(record.Start)
	for range 5_000 {
		next := all[len(all)-1] + 8*(4+rng.Int64N(100))
		all = append(all, next)
		b.add(boundary{offset: next})
		if rng.IntN(1500) == 0 {
			durable += rng.Int64N(next - durable + 1)
			b.advance(durable)
		}
		at := b.seal().offset
		if at > durable || !slices.Contains(all, at) || len(b) > boundariesMax {
			t.Fatalf("seal at %d of %d boundaries with a mark at %d", at, len(b), durable)
		}
	}
}

func TestRecover_HostileSpansAreReported(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for range 30 {
		d.append()
	}
	d.sync()
	must(t, d.w.Close())
	r, err := recoverAll(d.o, d.spans, func([]byte) error { return nil })
	must(t, err)
	good := r.Spans[0]
	for name, spoil := range map[string]func(s *base.LogSpan){
		"number":          func(s *base.LogSpan) { s.First.Number++ },
		"file":            func(s *base.LogSpan) { s.First.File++ },
		"salt":            func(s *base.LogSpan) { s.First.Salt++ },
		"end number low":  func(s *base.LogSpan) { s.EndNumber = 0 },
		"end number high": func(s *base.LogSpan) { s.EndNumber++ },
		"end low":         func(s *base.LogSpan) { s.End = 100 },
		"end negative":    func(s *base.LogSpan) { s.End = -1 },
		"end odd":         func(s *base.LogSpan) { s.End += 4 },
		"end high":        func(s *base.LogSpan) { s.End += 8 },
		"end beyond":      func(s *base.LogSpan) { s.End = 1 << 50 },
		"chain":           func(s *base.LogSpan) { s.EndChain++ },
	} {
		s := good
		spoil(&s)
		if _, err := recoverAll(d.o, []base.LogSpan{s}, func([]byte) error { return nil }); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Other commits wait meanwhile, and it needs one sync.
func TestWriteAhead_NotForOneLargeTransaction(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	o := testOptions(disk, 1)
	w, _, err := open(o, nil, nil)
	must(t, err)
	written := int64(0)
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpWrite {
			written += op.Len
		}
	})
	const large = 4 << 20
	must(t, w.Reserve(large))
	disk.SetHook(nil)
	if written > 64<<10 {
		t.Errorf("%d bytes were written to make room for %d", written, large)
	}
	w.Begin()
	w.Write(make([]byte, large))
	w.End()
	must(t, w.Close())
}
