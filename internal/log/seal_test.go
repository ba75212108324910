package log

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestSeal_RecordedAtCloseDetectsAnOlderCopy(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	d.append()
	d.sync()
	older := readFiles(t, d.o)
	d.append()
	must(t, d.w.Close())
	sealed := append(d.spans[:len(d.spans)-1:len(d.spans)-1], d.w.Span())
	if n, r, err := d.recovered(d.disk, sealed); err != nil || n != 2 || r.Unproven() || r.Spans[0] != sealed[0] {
		t.Fatalf("%d transactions, %+v: %v", n, r, err)
	}
	c := &closedLog{t: t, o: d.o}
	for file, b := range older {
		c.put(file, b)
	}
	if _, _, err := d.recovered(d.disk, sealed); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("an older copy under the seal: %v", err)
	}
}

func TestSeal_RightForEveryKindOfEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		d := newWorkload(t, seed)
		if seed%2 == 0 {
			d.runLate()
		}
		d.open()
		for range int(seed) * 3 {
			d.step()
		}
		d.close()
		sealed := append(d.spans[:len(d.spans)-1:len(d.spans)-1], d.w.Span())
		n, r, err := d.recovered(d.disk, sealed)
		if err != nil || n != d.built || r.Unproven() {
			t.Fatalf("seed %d: %d transactions, want %d: %v", seed, n, d.built, err)
		}
		// A new span continues behind it.
		d.spans, d.acked = sealed, d.built
		d.open()
		d.append()
		d.sync()
		d.checkCrash(d.disk.Crash(memfs.KeepNone, d.rng), "behind the seal")
	}
}

func TestSyncTail_MakesTheTailDurable(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	d.append()
	d.sync()
	d.append()
	must(t, d.w.Flush())
	n, r, err := d.recovered(d.disk, d.spans)
	if err != nil || n != 2 || !r.Unproven() {
		t.Fatalf("%d transactions, unproven %v: %v", n, r.Unproven(), err)
	}
	must(t, SyncTail(d.o, r))
	if n, _, err := d.recovered(d.disk.Crash(memfs.KeepNone, d.rng), d.spans); err != nil || n != 2 {
		t.Fatalf("%d transactions after SyncTail and a crash: %v", n, err)
	}
	must(t, SyncTail(d.o, Recovered{}))
	faults := faultfs.New(d.disk)
	for _, op := range []vfs.OpKind{vfs.OpOpenReadWrite, vfs.OpSyncData} {
		faults.Clear()
		faults.Add(faultfs.Rule{Op: op})
		o := d.o
		o.FS = faults
		if err := SyncTail(o, r); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("%s fails: %v", op, err)
		}
	}
}

func TestCarry_UnprovenTransactionsIntoTheNewSpan(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for range 5 {
		d.append()
	}
	must(t, d.w.Flush()) // without a sync: the durable offset stays at the start
	before := d.spans
	d.open()
	if d.built != 5 {
		t.Fatalf("%d transactions", d.built)
	}
	s := d.spans[len(d.spans)-1]
	if s.First.Number <= before[0].First.Number || len(d.spans) != 1 {
		t.Fatalf("spans %+v: the old one holds nothing that is proven", d.spans)
	}
	d.checkCrash(d.disk.Crash(memfs.KeepNone, d.rng), "carried")
	// The file of the old span is free, and the log reuses it.
	if free := d.w.Stats().FreeFiles; free != 1 {
		t.Fatalf("%d free files", free)
	}
}

func TestVersion_LaterFormatIsNotCorruption(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	must(t, d.w.Close())
	c := &closedLog{t: t, o: d.o}
	file := d.spans[0].First.File
	b := readFiles(t, d.o)[file]
	for _, offset := range []int{0, 4096} {
		page := b[offset : offset+4096]
		binary.LittleEndian.PutUint32(page[8:], 2)
		binary.LittleEndian.PutUint64(page[48:], base.Checksum(page[:48], uint64(offset)))
	}
	c.put(file, b)
	_, _, err := d.recovered(d.disk, d.spans)
	if !errors.Is(err, base.ErrVersion) || errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("%v", err)
	}
	if _, _, err := d.recovered(d.disk, nil); !errors.Is(err, base.ErrVersion) {
		t.Fatalf("without a reference: %v", err)
	}
}

func TestDamage_WrongSuccessorIsReported(t *testing.T) {
	t.Parallel()
	good := base.SegmentRef{Number: 8, File: 3, Salt: 9}
	p := appendSuccessor(nil, good)
	if got, err := decodeSuccessor(p, 0, 7); err != nil || got != good {
		t.Fatalf("%+v: %v", got, err)
	}
	if _, err := decodeSuccessor(p, 0, 8); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("the same number again: %v", err)
	}
	if _, err := decodeSuccessor(p[:20], 0, 7); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a short payload: %v", err)
	}
}
