package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// loadFrames loads a manifest of the given frames.
func loadFrames(t *testing.T, build func(b *record.Builder)) (State, error) {
	t.Helper()
	b := record.NewBuilder(1, record.MaxPayload, nil)
	build(&b)
	frames, _ := b.Sealed()
	size := record.Start + len(frames)
	file := record.AppendHeader(nil, record.Header{Type: record.TypeManifest, Number: 1, File: 1, Salt: 1, Size: int64(size)})
	fs := newTestDisk(t)
	f, err := fs.Create(fs.Join(testDir, FileName(1)), vfs.CatManifest)
	must(t, err)
	_, err = f.WriteAt(append(file, frames...), 0)
	must(t, err)
	_, state, err := Load(fs, testDir, true, nil, nil)
	return state, err
}

func TestDamage_InvalidRecordsAreReported(t *testing.T) {
	t.Parallel()
	snapshot := firstState().snapshot().AppendTo(nil)
	state, err := loadFrames(t, func(b *record.Builder) { b.Record(snapshot, 0) })
	if err != nil || !same(state, firstState()) {
		t.Fatalf("%+v: %v", state, err)
	}
	for name, build := range map[string]func(b *record.Builder){
		"nothing":         func(*record.Builder) {},
		"half a snapshot": func(b *record.Builder) { b.Frame(record.First, snapshot, 0) },
		"a mark first":    func(b *record.Builder) { b.Frame(record.Mark, nil, 0) },
		"no version": func(b *record.Builder) {
			b.Record(Edit{NextFile: Some(uint64(1))}.AppendTo(nil), 0)
		},
		"a successor": func(b *record.Builder) {
			b.Record(snapshot, 0)
			b.Frame(record.Next, nil, 0)
		},
		"an end": func(b *record.Builder) {
			b.Record(snapshot, 0)
			b.Frame(record.Close, nil, 0)
		},
		"an edit that cannot follow": func(b *record.Builder) {
			b.Record(snapshot, 0)
			b.Record(Edit{HashSeed: Some(uint64(1))}.AppendTo(nil), 0)
		},
		"a time beyond all clocks": func(b *record.Builder) {
			b.Record(snapshot, 0)
			b.Record(Edit{ClockHighMs: Some(uint64(base.TimeMsMax + 1))}.AppendTo(nil), 0)
		},
		"a snapshot at a time beyond all clocks": func(b *record.Builder) {
			late := firstState()
			late.ClockHighMs = base.TimeMsMax + 6
			b.Record(late.snapshot().AppendTo(nil), 0)
		},
		"an edit that is none": func(b *record.Builder) {
			b.Record(snapshot, 0)
			b.Record([]byte{1}, 0)
		},
	} {
		if _, err := loadFrames(t, build); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeEdit_NonCanonicalEditsAreReported(t *testing.T) {
	t.Parallel()
	number := func(tag tag) []byte {
		return binary.LittleEndian.AppendUint64(appendField(nil, tag, 8), 5)
	}
	span := appendSpan(nil, base.LogSpan{})
	sealed := append([]byte(nil), span...)
	sealed[24] = 2
	left := append([]byte(nil), span...)
	left[30] = 1
	item := func(tag tag, item []byte) []byte {
		p := append(appendField(nil, tag, 4+len(item)), 0, 0, 0, 0)
		p = append(p, item...)
		putLength(p, fieldHeaderSize+4)
		return p
	}
	whole := func() []byte { return appendTable(nil, tableAt(1, 0, "a", "b", ValueRef{1, 1})) }
	spoiled := func(at int, b byte) []byte {
		p := whole()
		p[at] = b
		return p
	}
	jumping := tableAt(1, 0, "a", "b")
	jumping.Jumps = 1
	// Raw bounds, which the encoder would refuse.
	withBounds := func(smallest, largest []byte, exclusive bool) []byte {
		table := tableAt(1, 0, "a", "b")
		table.LargestExclusive = exclusive
		p := appendTable(nil, table)[:tableFixedSize]
		binary.LittleEndian.PutUint32(p[tableLengths:], uint32(len(smallest)))
		binary.LittleEndian.PutUint32(p[tableLengths+4:], uint32(len(largest)))
		return slices.Concat(p, smallest, largest)
	}
	for name, p := range map[string][]byte{
		"half a header":            {1, 0, 4},
		"longer than the edit":     appendField(nil, tagNextFile, 8),
		"a size of its own":        append(appendField(nil, tagNextFile, 4), 1, 2, 3, 4),
		"twice":                    append(number(tagNextFile), number(tagNextFile)...),
		"out of order":             append(number(tagNextFile), number(tagLastSeq)...),
		"tag zero":                 appendField(nil, 0, 0),
		"part of a span":           append(appendField(nil, tagSpans, spanSize-1), span[1:]...),
		"half sealed":              append(appendField(nil, tagSpans, spanSize), sealed...),
		"a seal left over":         append(appendField(nil, tagSpans, spanSize), left...),
		"an empty list":            appendField(nil, tagAddTables, 0),
		"half a length":            append(appendField(nil, tagDropTables, 2), 0, 0),
		"an item too long":         append(appendField(nil, tagDropTables, 4), 0xff, 0xff, 0xff, 0xff),
		"part of a place":          item(tagDropTables, make([]byte, placeSize-1)),
		"more than a place":        item(tagDropTables, make([]byte, placeSize+1)),
		"part of a number":         item(tagDropValues, make([]byte, fileNumSize-1)),
		"part of a value file":     item(tagAddValues, make([]byte, valueFileSize-1)),
		"part of a table":          item(tagAddTables, make([]byte, tableFixedSize-1)),
		"no room for keys":         item(tagAddTables, append([]byte{0, keysCounted}, make([]byte, tableFixedSize-2)...)),
		"no keys counted":          item(tagAddTables, append([]byte{0, keysCounted}, make([]byte, tableFixedSize-2+tableCountSize)...)),
		"no references":            item(tagAddTables, append([]byte{0, shortRefs}, appendTable(nil, tableAt(1, 0, "a", "b"))[2:]...)),
		"jumps twice":              item(tagAddTables, append(appendTable(nil, jumping), 1, 0, 0, 0, 0, 0, 0, 0)),
		"more than old jumps":      item(tagAddTables, append(appendTable(nil, tableAt(1, 0, "a", "b")), 1, 0, 0, 0, 0, 0, 0, 0, 0)),
		"old references of new":    item(tagAddTables, append(appendTable(nil, jumping), make([]byte, longRefSize)...)),
		"no jumps at the end":      item(tagAddTables, append(appendTable(nil, tableAt(1, 0, "a", "b")), 0, 0, 0, 0, 0, 0, 0, 0)),
		"part of an old reference": item(tagAddTables, append(appendTable(nil, tableAt(1, 0, "a", "b")), 1, 2, 3)),
		"no shift":                 item(tagAddTables, append([]byte{0, isShifted}, make([]byte, tableFixedSize-2+tableCountSize)...)),
		"no jumps":                 item(tagAddTables, append([]byte{0, hasJumps}, make([]byte, tableFixedSize-2+tableCountSize)...)),
		"an end of all keys that belongs to the table": item(tagAddTables, withBounds([]byte("a"), nil, false)),
		"an end of all keys spelt out":                 item(tagAddTables, withBounds([]byte("a"), base.EndOfKeys, true)),
		"the end of all keys as the smallest":          item(tagAddTables, withBounds(nil, nil, true)),
		"the same spelt out":                           item(tagAddTables, withBounds(base.EndOfKeys, nil, true)),
		"no smallest":                                  item(tagAddTables, withBounds(nil, []byte("b"), true)),
		"a smallest too long":                          item(tagAddTables, spoiled(tableLengths, 200)),
		"a smallest of 4 GiB":                          item(tagAddTables, spoiled(tableLengths+3, 255)),
		"a largest too long":                           item(tagAddTables, spoiled(tableLengths+4, 4)),
		"half a reference":                             item(tagAddTables, append(whole(), 1)),
		"part of a varint":                             item(tagAddTables, append(whole(), 1, 0x80)),
		"a long varint":                                item(tagAddTables, append(whole(), 0x81, 0, 1)),
		"a varint of more than 64 bits":                item(tagAddTables, append(whole(), slices.Concat([]byte{1}, bytes.Repeat([]byte{0xff}, 9), []byte{2})...)),
	} {
		if e, err := DecodeEdit(p); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// An invalid edit in a manifest is corruption, so that no later edit is refused
// because of it.
func TestDamage_NumbersAboveTheLimit(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Edit{
		"last sequence number":    {LastSeq: Some(base.SeqNumMax + 1)},
		"flushed sequence number": {FlushedSeq: Some(base.SeqNumMax + 1)},
		"next file":               {NextFile: Some(uint64(1 << 62))},
		"number of a segment":     {Spans: Some([]base.LogSpan{{First: base.SegmentRef{Number: 1 << 62}}})},
		"size of a table": {NextFile: Some(uint64(9)), AddTables: []*Table{
			{Num: 1, Level: 1, Size: 1<<62 - 1, Smallest: []byte("a"), Largest: []byte("b")}}},
		"partial entries of a table": {NextFile: Some(uint64(9)), AddTables: []*Table{
			{Num: 1, Level: 1, Partials: 1 << 62, Smallest: []byte("a"), Largest: []byte("b")}}},
		"bytes of the log for feeds": {PutKeyspaces: []*Keyspace{{Settings: Settings{ChangeRetention: 1 << 63}}}},
	} {
		_, err := loadFrames(t, func(b *record.Builder) {
			b.Record(firstState().snapshot().AppendTo(nil), 0)
			b.Record(e.AppendTo(nil), 0)
		})
		if !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v, want %v", name, err, base.ErrCorrupt)
		}
	}
}

// Every size may be valid while the sum is not. Callers rely on the sum.
func TestDamage_TotalFileSizeAboveTheLimit(t *testing.T) {
	t.Parallel()
	_, err := loadFrames(t, func(b *record.Builder) {
		e := firstState().snapshot()
		const files = numberMax/fileSizeMax + 1
		e.NextFile = Some(uint64(files + 1))
		for num := base.FileNum(1); num <= files; num++ {
			e.AddValues = append(e.AddValues, &ValueFile{Num: num, File: num, Size: fileSizeMax})
		}
		b.Record(e.AppendTo(nil), 0)
	})
	if !errors.Is(err, base.ErrCorrupt) || !strings.Contains(err.Error(), "total size") {
		t.Errorf("%v, want %v", err, base.ErrCorrupt)
	}
}

// A file that is only long is cheap to make. It must not delay Open.
func TestDamage_LongManifestIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	const size = 4 << 30
	for name, broken := range map[string]bool{"behind a snapshot": false, "behind a broken snapshot": true} {
		b := record.NewBuilder(1, 64, nil)
		b.Record(firstState().snapshot().AppendTo(nil), 0)
		frames, _ := b.Sealed()
		if broken {
			frames[len(frames)-1] ^= 1
		}
		disk := newTestDisk(t)
		f, err := disk.Create(disk.Join(testDir, FileName(1)), vfs.CatManifest)
		must(t, err)
		header := record.AppendHeader(nil, record.Header{Type: record.TypeManifest, Number: 1, File: 1, Salt: 1, Size: size})
		_, err = f.WriteAt(append(header, frames...), 0)
		must(t, err)
		must(t, f.Truncate(size))
		must(t, f.Close())
		fs, reads := faultfs.New(disk), 0
		fs.Observe(func(op vfs.Op) {
			if op.Kind == vfs.OpRead {
				reads++
			}
		})
		if _, _, err := Load(fs, testDir, true, nil, nil); !errors.Is(err, base.ErrCorrupt) || reads > 10 {
			t.Errorf("%s: %v after %d reads, want %v after few", name, err, reads, base.ErrCorrupt)
		}
	}
}

func TestSnapshot_LargeStateTakesSeveralFrames(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	state := firstState()
	number := uint64(1)
	for range 60_000 {
		state.Spans = append(state.Spans, base.LogSpan{First: base.SegmentRef{Number: number}, Sealed: true, EndNumber: number})
		number++
	}
	s, err := Create(fs, testDir, state, testRandom(1), nil)
	must(t, err)
	must(t, s.Append(Edit{Spans: Some(state.Spans[1:])}))
	must(t, s.Append(Edit{Spans: Some(state.Spans[2:])}))
	must(t, s.Append(Edit{Spans: Some(state.Spans[3:])}))
	must(t, s.Close())
	_, got, err := Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	state.Spans = state.Spans[3:]
	if !same(got, state) {
		t.Fatalf("%d spans, want %d", len(got.Spans), len(state.Spans))
	}
}

func TestLoad_SeesAnyByteBehindTheEnd(t *testing.T) {
	t.Parallel()
	b := make([]byte, zeroWrite+100)
	zero := func(off int) bool {
		t.Helper()
		ok, err := isZero(bytes.NewReader(b), int64(off), int64(len(b)))
		must(t, err)
		return ok
	}
	if !zero(0) || !zero(50) || !zero(len(b)) {
		t.Fatal("zeros are not seen as such")
	}
	for _, at := range []int{50, 51, 1000, zeroWrite + 49, zeroWrite + 50, len(b) - 1} {
		b[at] = 1
		if zero(50) || !zero(at+1) {
			t.Fatalf("a byte at %d is not seen, or is seen behind it", at)
		}
		b[at] = 0
	}
}

// The bytes of a failed append stay in the middle of the file. Records behind
// them must not be lost.
func TestAppend_LosesNothingBehindOneThatFailedHalfway(t *testing.T) {
	t.Parallel()
	next := func(s State) Edit { return Edit{NextFile: Some(s.NextFile + 1)} }
	for _, rule := range []faultfs.Rule{
		{Op: vfs.OpWrite}, {Op: vfs.OpWrite, Partial: 1}, {Op: vfs.OpWrite, Partial: 8}, {Op: vfs.OpWrite, Partial: 30},
		{Op: vfs.OpWrite, Done: true}, {Op: vfs.OpWrite, Err: vfs.ErrNoSpace, Partial: 12},
		{Op: vfs.OpSyncData, Sync: vfs.SyncDropped}, {Op: vfs.OpSyncData, Sync: vfs.SyncKept}, {Op: vfs.OpSyncData, Sync: vfs.SyncHalf},
	} {
		disk := newTestDisk(t)
		faults := faultfs.New(disk)
		s, err := Create(faults, testDir, firstState(), testRandom(1), nil)
		must(t, err)
		must(t, s.Append(next(s.State())))
		before := s.State()
		faults.Add(rule)
		if err := s.Append(next(before)); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("%+v: %v", rule, err)
		}
		faults.Clear()
		// Later edits are refused or kept.
		kept := before.NextFile
		for range 3 {
			if err := s.Append(next(s.State())); err == nil {
				kept = s.State().NextFile
			}
		}
		for _, left := range []*memfs.FS{disk.Crash(memfs.KeepNone, nil), disk.Clone()} {
			s, state, err := Load(left, testDir, false, testRandom(2), nil)
			must(t, err)
			if state.NextFile < kept || kept == before.NextFile && state.NextFile > kept+1 {
				t.Errorf("%+v: loaded %d, want %d", rule, state.NextFile, kept)
			}
			must(t, s.Append(next(state)))
			must(t, s.Close())
			if _, again, err := Load(left.Crash(memfs.KeepNone, nil), testDir, true, nil, nil); err != nil || again.NextFile != state.NextFile+1 {
				t.Errorf("%+v: one more edit, and %d after %d: %v", rule, again.NextFile, state.NextFile, err)
			}
		}
		_ = s.Close() // it may repeat the first error
	}
}
