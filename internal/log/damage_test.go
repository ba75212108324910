package log

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A closedLog is a log closed in order, on a disk that tests damage and repair.
type closedLog struct {
	t     *testing.T
	o     Options
	spans []base.LogSpan
	first int // transaction in the log
	n     int // the number of all transactions
	// files are the contents of the log files by number. older are their
	// contents at an earlier time, if they existed.
	files, older map[uint64][]byte
}

// readFiles returns the contents of all log files.
func readFiles(t *testing.T, o Options) map[uint64][]byte {
	t.Helper()
	list, err := o.listFiles()
	must(t, err)
	files := map[uint64][]byte{}
	for _, file := range list {
		f, err := o.FS.Open(o.path(file), vfs.CatLog)
		must(t, err)
		size, err := f.Size()
		must(t, err)
		b := make([]byte, size)
		_, err = f.ReadAt(b, 0)
		must(t, err)
		must(t, f.Close())
		files[file] = b
	}
	return files
}

// newClosedLog runs a workload, closes the log, and moves it to a plain disk.
func newClosedLog(t *testing.T, seed uint64) *closedLog {
	d := newWorkload(t, seed)
	d.open()
	for range 60 {
		d.step()
	}
	older := readFiles(t, d.o)
	for range 60 {
		d.step()
	}
	d.append()
	must(t, d.w.Close())
	c := &closedLog{t: t, o: d.o, spans: d.spans, first: d.first, n: d.built,
		files: readFiles(t, d.o), older: older}
	fs := memfs.NewVolatile()
	must(t, fs.MkdirAll(testDir))
	c.o.FS = fs
	for file, b := range c.files {
		c.put(file, b)
	}
	c.check("no damage", false)
	return c
}

// put replaces a file.
func (c *closedLog) put(file uint64, b []byte) {
	c.t.Helper()
	c.remove(file)
	f, err := c.o.FS.Create(c.o.path(file), vfs.CatLog)
	must(c.t, err)
	_, err = f.WriteAt(b, 0)
	must(c.t, err)
	must(c.t, f.Close())
}

func (c *closedLog) remove(file uint64) {
	c.t.Helper()
	if err := c.o.FS.Remove(c.o.path(file)); err != nil && !errors.Is(err, vfs.ErrNotExist) {
		c.t.Fatal(err)
	}
}

// check recovers. It fails the test unless recovery reports the damage or the
// damage did no harm. It returns whether recovery reported it.
func (c *closedLog) check(what string, mustReport bool) bool {
	c.t.Helper()
	next := c.first
	_, err := recoverAll(c.o, c.spans, collect(&next))
	var corrupt *base.CorruptionError
	switch {
	case err != nil && !errors.As(err, &corrupt):
		c.t.Fatalf("%s: %v, want a CorruptionError", what, err)
	case err != nil && corrupt.File == "":
		c.t.Fatalf("%s: %v does not name the file", what, err)
	case err == nil && next != c.n:
		c.t.Fatalf("%s: %d transactions without an error, want %d", what, next, c.n)
	case err == nil && mustReport:
		c.t.Fatalf("%s: no error", what)
	}
	return err != nil
}

// referenced returns the files of all spans.
func (c *closedLog) referenced() map[uint64]bool {
	next := c.first
	r, err := recoverAll(c.o, c.spans, collect(&next))
	must(c.t, err)
	files := map[uint64]bool{}
	for _, f := range r.live {
		files[f.file] = true
	}
	return files
}

// sample returns a function that is true for about n of many cases, or for all
// cases if n is negative.
func sample(rng *rand.Rand, n, many int) func() bool {
	return func() bool { return n < 0 || rng.IntN(many) < n }
}

func TestDamage_FlippedBitsOfAClosedLog(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	c := newClosedLog(t, seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	total := 0
	for _, b := range c.files {
		total += len(b) * 8
	}
	try := sample(rng, dose.Size(t, dose.Flips, 1000, 6000), total)
	reported := 0
	for file, b := range c.files {
		f, err := c.o.FS.OpenReadWrite(c.o.path(file), vfs.CatLog)
		must(t, err)
		for bit := range len(b) * 8 {
			if !try() {
				continue
			}
			at := bit / 8
			_, err = f.WriteAt([]byte{b[at] ^ 1<<(bit%8)}, int64(at))
			must(t, err)
			if c.check(FileName(file)+" bit flipped", false) {
				reported++
			}
			_, err = f.WriteAt(b[at:at+1], int64(at))
			must(t, err)
		}
		must(t, f.Close())
	}
	if reported == 0 {
		t.Fatal("no flip was reported")
	}
}

func TestDamage_SectorsOfAClosedLog(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	c := newClosedLog(t, seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	swaps := dose.Size(t, dose.Flips, 1, 4)
	for file := range c.files {
		c.damageSectors(file, rng, swaps)
	}
}

// damageSectors damages each sector of a file in turn, and swaps it with some
// others of the same file and of other files.
func (c *closedLog) damageSectors(file uint64, rng *rand.Rand, swaps int) {
	c.t.Helper()
	const sector, page = 512, 4096
	b, old := c.files[file], c.older[file]
	write := func(file uint64, at int, b []byte) {
		f, err := c.o.FS.OpenReadWrite(c.o.path(file), vfs.CatLog)
		must(c.t, err)
		_, err = f.WriteAt(b, int64(at))
		must(c.t, err)
		must(c.t, f.Close())
	}
	zeros, garbage := make([]byte, page), make([]byte, sector)
	for at := 0; at < len(b); at += sector {
		for i := 0; i < sector; i += 8 {
			binary.LittleEndian.PutUint64(garbage[i:], rng.Uint64())
		}
		write(file, at, zeros[:sector])
		c.check(FileName(file)+" sector zeroed", false)
		write(file, at, garbage)
		c.check(FileName(file)+" sector of garbage", false)
		if len(old) == len(b) {
			write(file, at, old[at:at+sector])
			c.check(FileName(file)+" older sector", false)
		}
		start := at / page * page
		write(file, start, zeros)
		c.check(FileName(file)+" page zeroed", false)
		write(file, start, b[start:start+page])
		for range swaps {
			for other, content := range c.files {
				from := rng.IntN(len(content)/sector) * sector
				write(file, at, content[from:from+sector])
				write(other, from, b[at:at+sector])
				c.check(FileName(file)+" and "+FileName(other)+" sectors exchanged", false)
				write(other, from, content[from:from+sector])
				write(file, at, b[at:at+sector])
			}
		}
	}
}

func TestDamage_MissingShortOrSwappedFileIsReported(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	c := newClosedLog(t, seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	live := c.referenced()
	cut := sample(rng, dose.Size(t, dose.Flips, 20, 100), 20_000)
	for file, b := range c.files {
		c.remove(file)
		c.check(FileName(file)+" removed", live[file])
		for size := range len(b) {
			if cut() || size < 2 {
				c.put(file, b[:size])
				c.check(FileName(file)+" cut", live[file])
			}
		}
		c.put(file, append(append([]byte(nil), b...), make([]byte, 4096)...))
		c.check(FileName(file)+" lengthened", live[file])
		for other, content := range c.files {
			if other != file {
				c.put(file, content)
				c.check(FileName(file)+" replaced by "+FileName(other), live[file])
				c.put(other, b)
				c.check(FileName(file)+" and "+FileName(other)+" exchanged", live[file] || live[other])
				c.put(other, content)
			}
		}
		c.put(file, b)
	}
}

func TestRecover_UnreferencedUsedSegmentIsCorruption(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for range 5 {
		d.append()
	}
	d.sync()
	must(t, d.w.Close())
	before := d.spans
	d.acked = d.built
	d.open()
	d.append()
	d.sync()
	if _, _, err := d.recovered(d.disk, before); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("recovery without the newest span: %v, want corruption", err)
	}
	if _, _, err := d.recovered(d.disk, nil); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("recovery without any span: %v, want corruption", err)
	}
}

// No writer closes a log before its records are durable. Recovery would take them for a tail
// that may be lost.
func TestRecover_CloseFrameThatDoesNotProveItsRecordsIsCorruption(t *testing.T) {
	t.Parallel()
	ref := base.SegmentRef{Number: 1, File: 1, Salt: 77}
	for _, durable := range []bool{true, false} {
		fs := memfs.NewVolatile()
		must(t, fs.MkdirAll(testDir))
		o := testOptions(fs, 1)
		script := []byte{0x31, 0x07}
		if durable {
			script = []byte{0x31, 0x00, 0x07}
		}
		writeFile(t, &o, ref.File, fuzzSegment(ref, script))
		_, err := recoverAll(o, []base.LogSpan{{First: ref}}, func([]byte) error { return nil })
		if ok := err == nil; ok != durable || err != nil && !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("the close frame proves the record: %v; recovery: %v", durable, err)
		}
	}
}

func TestReplay_IgnoresFramesOfAnEarlierUseOfTheFile(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	lives := map[uint64]uint64{} // the last segment in a file
	recycled := 0
	for recycled < 20 {
		d.append()
		now := d.w.Current()
		if last := lives[now.File]; last == now.Number {
			continue
		} else if last != 0 {
			recycled++
		}
		lives[now.File] = now.Number
		// Behind the few new frames lie frames of the file's earlier segment.
		d.checkCrash(d.disk.Clone(), "just recycled")
		d.sync()
		d.checkCrash(d.disk.Crash(memfs.KeepNone, d.rng), "just recycled")
		d.release()
		d.checkCrash(d.disk.Clone(), "released")
	}
}

// A log that synced a segment only on request could leave, after a power cut, a
// synced newer segment behind an unsynced older one.
func TestRotate_SyncsEarlierSegmentsFirst(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for d.w.Stats().Rotations < 4 {
		before := d.w.Stats().Rotations
		d.append()
		must(t, d.w.Flush()) // without a Sync
		if d.w.Stats().Rotations == before {
			continue
		}
		for _, kind := range memfs.CrashKinds() {
			if n := d.checkCrash(d.disk.Crash(kind, d.rng), kind.String()); n < d.built-1 {
				t.Fatalf("%s: %d transactions, %d were in the segments before", kind, n, d.built-1)
			}
		}
	}
	// Only the newest segment is synced explicitly.
	d.sync()
	for _, kind := range memfs.CrashKinds() {
		d.checkCrash(d.disk.Crash(kind, d.rng), "synced, "+kind.String())
	}
}
