package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// sample returns a header and items that use every field.
func sample() (Header, []Item) {
	h := Header{Nonce: 7, Since: 10, TimeMs: 1_790_000_000_000, State: manifest.State{
		FormatVersion: manifest.FormatVersion, ID: [16]byte{1, 2, 3}, LastSeq: 50, ClockHighMs: 5, NextKeyspace: 2,
		Keyspaces: []*manifest.Keyspace{{}, {Number: 1, Name: "timed", Settings: manifest.Settings{Timestamps: manifest.TimestampsChecked}}}}}
	entry := func(key string, seq base.SeqNum, kind base.Kind, value string, expires uint64, user byte) Item {
		return Item{Entry: base.Entry{Key: []byte(key), Value: []byte(value), Seq: seq, Meta: base.Meta{Kind: kind, ExpiresAt: expires, User: user}}}
	}
	return h, []Item{
		entry("a", 50, base.KindSet, "value", 0, 0),
		entry("a", 40, base.KindMerge, "operand", 0, 0),
		entry("a", 30, base.KindRenew, "renewal", 0, 0),
		{Entry: base.Entry{Key: []byte("a"), Seq: 9}, Unchanged: true},
		entry("ab", 20, base.KindSet, "", 77, 200),
		entry(timedKey("b", 5), 4, base.KindStampDelete, "", 0, 0),
		entry(timedKey("key\x00", 5), 49, base.KindSet, "", 1<<63|77, 0),
	}
}

// timedKey returns the stored key of a version in the keyspace with timestamps of sample.
func timedKey(key string, at uint64) string {
	space := keyspace.New(1)
	return string(space.Append(nil, stamp.Append(nil, []byte(key), at)))
}

func TestReader_AKeyspaceWithAFilterHasItsOldValues(t *testing.T) {
	t.Parallel()
	h, _ := sample()
	h.State.Keyspaces = []*manifest.Keyspace{{}, {Number: 1, Name: "other", Settings: manifest.Settings{Filter: "none"}}}
	old := Item{Entry: base.Entry{Key: []byte("\xff\x01a"), Seq: 9, Meta: base.Meta{Kind: base.KindSet}}}
	older, unchanged, plain := old, old, old
	older.Seq, unchanged.Unchanged, plain.Key = 8, true, []byte("a")
	for _, c := range []struct {
		all   []Item
		right bool
	}{{[]Item{old, older}, true}, {[]Item{unchanged}, false}, {[]Item{plain, old}, false}} {
		for _, since := range []base.SeqNum{10, 50} {
			h.Since = since
			_, err := Verify(context.Background(), bytes.NewReader(write(t, h, c.all, false)))
			if (err == nil) != c.right || err != nil && !errors.Is(err, base.ErrCorrupt) {
				t.Errorf("%+v since %d: %v, right %v", c.all, since, err, c.right)
			}
		}
	}
}

// write returns a backup of items, packed into a frame each if alone.
func write(t testing.TB, h Header, all []Item, alone bool) []byte {
	t.Helper()
	var to bytes.Buffer
	w, err := newFrameWriter(&to, TypeBackup)
	comp, e := codec.NewCompressor(codec.S2, 64, codec.SizeMax)
	for _, e := range []error{err, e, w.write(newFrame(frameHeader, h.appendTo(nil), nil, nil))} {
		if e != nil {
			t.Fatal(e)
		}
	}
	frames := items{until: h.State.LastSeq}
	var entries, unchanged uint64
	for i := range all {
		frames.add(&all[i])
		if all[i].Unchanged {
			unchanged++
		} else {
			entries++
		}
		if alone || i == len(all)-1 {
			if err := w.write(newFrame(frameItems, frames.buf, comp, nil)); err != nil {
				t.Fatal(err)
			}
			frames.reset()
		}
	}
	if err := w.write(newFrame(frameEnd, appendEnd(nil, entries, unchanged), nil, nil)); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

func TestReader_ReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	h, want := sample()
	for _, alone := range []bool{false, true} {
		r, err := NewReader(bytes.NewReader(write(t, h, want, alone)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			got, err := r.Next()
			if err != nil || !sameItem(got, want[i]) {
				t.Errorf("item %d: %+v, %v; want %+v", i, got, err, want[i])
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Error(err)
		}
		if info := r.Info(); info.Entries != 6 || info.Unchanged != 1 || info.Since != 10 || info.Version != 50 {
			t.Errorf("%+v", info)
		}
	}
}

func TestReader_RefusesItemsThatCannotFollow(t *testing.T) {
	t.Parallel()
	item := func(key string, seq base.SeqNum, kind base.Kind) Item {
		return Item{Entry: base.Entry{Key: []byte(key), Seq: seq, Meta: base.Meta{Kind: kind}}, Unchanged: kind == 0}
	}
	for name, all := range map[string][]Item{
		"descending keys":         {item("b", 20, base.KindSet), item("a", 20, base.KindSet)},
		"ascending versions":      {item("a", 20, base.KindSet), item("a", 30, base.KindSet)},
		"equal versions":          {item("a", 20, base.KindSet), item("a", 20, base.KindSet)},
		"an old value":            {item("a", 10, base.KindSet)},
		"a new unchanged version": {item("a", 11, 0)},
		"two unchanged versions":  {item("a", 9, 0), item("a", 8, 0)},
		"an unknown kind":         {item("a", 20, 9)},
		"a pointer":               {item("a", 20, base.KindPointer)},
		"a tombstone":             {item("a", 20, base.KindDelete)},
		"a range tombstone":       {item("a", 20, base.KindDeleteRange)},
		"an unknown keyspace":     {item("\xff\x02a", 20, base.KindSet)},
		"a key of no keyspace":    {item("\xff\xfe", 20, base.KindSet)},
		"an empty key":            {item("", 20, base.KindSet)},
		"a large value without it": {{Entry: base.Entry{Key: []byte("a"), Seq: 20, Meta: base.Meta{Kind: base.KindSet}},
			Large: LargeMin}},
	} {
		for _, alone := range []bool{false, true} {
			h, _ := sample()
			if _, err := Verify(context.Background(), bytes.NewReader(write(t, h, all, alone))); !errors.Is(err, base.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestReader_RefusesItemsThatTheirKeyspaceCannotHave(t *testing.T) {
	t.Parallel()
	item := func(key string, m base.Meta) []Item {
		return []Item{{Entry: base.Entry{Key: []byte(key), Seq: 20, Meta: m}}}
	}
	set := base.Meta{Kind: base.KindSet}
	for name, all := range map[string][]Item{
		"a key without a timestamp":                item("\xff\x01a", set),
		"a long key without a timestamp":           item("\xff\x01a long key", set),
		"an unchanged key without a timestamp":     {{Entry: base.Entry{Key: []byte("\xff\x01a"), Seq: 9}, Unchanged: true}},
		"an operand at a timestamp":                item(timedKey("a", 5), base.Meta{Kind: base.KindMerge}),
		"an unmarked expiry at a timestamp":        item(timedKey("a", 5), base.Meta{Kind: base.KindSet, ExpiresAt: 77}),
		"the expiry of an operand":                 item("a", base.Meta{Kind: base.KindMerge, ExpiresAt: 77}),
		"the user's byte of a renewal":             item("a", base.Meta{Kind: base.KindRenew, User: 1}),
		"a deletion at a timestamp elsewhere":      item("a", base.Meta{Kind: base.KindStampDelete}),
		"a marked expiry elsewhere":                item("a", base.Meta{Kind: base.KindSet, ExpiresAt: 1<<63 | 77}),
		"the expiry of a deletion at a timestamp":  item(timedKey("a", 5), base.Meta{Kind: base.KindStampDelete, ExpiresAt: 1<<63 | 77}),
		"an expiry that is nothing but the mark":   item(timedKey("a", 5), base.Meta{Kind: base.KindSet, ExpiresAt: 1 << 63}),
		"a timestamp without a key of the user":    item(timedKey("", 5), set),
		"a key whose bytes are not escaped":        item(timedKey("a", 5)[:3]+"\x00b"+timedKey("a", 5)[3:], set),
		"a key of the user without a stamped part": item(timedKey("a", 5)[:4], set),
	} {
		h, _ := sample()
		if _, err := Verify(context.Background(), bytes.NewReader(write(t, h, all, false))); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChain_RefusesAKeyspaceThatGetsTimestamps(t *testing.T) {
	t.Parallel()
	timed, _ := sample()
	timed.Since = 10
	plain, _ := sample()
	plain.Since, plain.State.LastSeq = 0, 10
	plain.State.Keyspaces = []*manifest.Keyspace{{}, {Number: 1, Name: "timed"}}
	key := []Item{{Entry: base.Entry{Key: []byte("\xff\x01a"), Seq: 9, Meta: base.Meta{Kind: base.KindSet}}}}
	_, err := OpenChain(0, []io.Reader{bytes.NewReader(write(t, plain, key, false)), bytes.NewReader(write(t, timed, nil, false))})
	if !errors.Is(err, ErrChain) {
		t.Error(err)
	}
}

// The frame has the right checksum.
func TestFrames_EndTheirHeadersWithZeros(t *testing.T) {
	t.Parallel()
	for at := 18; at < frameSize; at++ {
		var to bytes.Buffer
		w, err := newFrameWriter(&to, TypeBackup)
		h, _ := sample()
		f := newFrame(frameHeader, h.appendTo(nil), nil, nil)
		f.bytes[at] = 1
		if err := errors.Join(err, w.write(f), w.write(newFrame(frameEnd, appendEnd(nil, 0, 0), nil, nil))); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(context.Background(), &to); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("byte %d of a frame: %v", at, err)
		}
	}
}

func TestHeader_RefusesWhatNoBackupHas(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *Header){
		"a version before since": func(h *Header) { h.Since = 51 },
		"a dropped keyspace":     func(h *Header) { h.State.Keyspaces[1].Dropping = true },
		"an unknown feature":     func(h *Header) { h.State.RequiredFeatures = []string{"wings"} },
		"a time too late":        func(h *Header) { h.TimeMs = 1 << 63 },
	} {
		h, _ := sample()
		change(&h)
		if _, err := decodeHeader(h.appendTo(nil)); !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzItems decodes a frame of items. They fail to decode, or encode to the same bytes.
func FuzzItems(f *testing.F) {
	h, all := sample()
	frame := items{until: h.State.LastSeq}
	for i := range all {
		frame.add(&all[i])
		f.Add(bytes.Clone(frame.buf))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d := itemReader{since: 10, until: 50}
		d.frame(payload)
		again := items{until: 50}
		for {
			it, ok, err := d.next()
			if err != nil {
				if !errors.Is(err, base.ErrCorrupt) {
					t.Fatal(err)
				}
				return
			}
			if !ok {
				break
			}
			again.add(&it)
		}
		if !bytes.Equal(again.buf, payload) {
			t.Fatalf("%x encodes to %x", payload, again.buf)
		}
	})
}

// FuzzHeader decodes a header. It fails to decode, or encodes to the same bytes.
func FuzzHeader(f *testing.F) {
	h, _ := sample()
	f.Add(h.appendTo(nil))
	h.State.Unknown = []manifest.Field{{Tag: 40_000, Value: "later"}}
	f.Add(h.appendTo(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := decodeHeader(p)
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		again, err := decodeHeader(h.appendTo(nil))
		if err != nil || !bytes.Equal(again.appendTo(nil), h.appendTo(nil)) {
			t.Fatalf("%x encodes to %x: %v", p, h.appendTo(nil), err)
		}
	})
}

// resealed returns a file of frames with valid checksums.
func resealed(b []byte) []byte {
	b = bytes.Clone(b)
	at := prefixSize
	chain := base.Checksum(b[:min(at, len(b))], 0)
	for at+frameSize <= len(b) {
		end := at + frameSize + int(binary.LittleEndian.Uint32(b[at+8:]))
		if end > len(b) {
			break
		}
		chain = base.Checksum(b[at+8:end], chain)
		binary.LittleEndian.PutUint64(b[at:], chain)
		at = end
	}
	return b
}

// readAll returns what a right backup has.
func readAll(t *testing.T, b []byte) (Header, []Item) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var all []Item
	for {
		it, err := r.Next()
		if err == io.EOF {
			return r.Header, all
		}
		if err != nil {
			t.Fatal(err)
		}
		it.Key, it.Value = bytes.Clone(it.Key), bytes.Clone(it.Value)
		all = append(all, it)
	}
}

// sameItem reports whether two items are equal.
func sameItem(a, b Item) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Seq == b.Seq && a.Meta == b.Meta && a.Unchanged == b.Unchanged
}

// wantSameAgain demands that the items of a right backup are the same when they are written and
// read again.
func wantSameAgain(t *testing.T, b []byte) {
	t.Helper()
	h, want := readAll(t, b)
	if slices.ContainsFunc(want, func(it Item) bool { return it.Large > 0 }) {
		return // write has no chunks
	}
	again, got := readAll(t, write(t, h, want, false))
	if !bytes.Equal(h.appendTo(nil), again.appendTo(nil)) || !slices.EqualFunc(got, want, sameItem) {
		t.Fatalf("%+v with %+v becomes %+v with %+v", h, want, again, got)
	}
}

// FuzzBackup reads bytes as a backup, and as two backups of a chain, with the fuzzed checksums or
// with valid ones. A backup that verifies has the same items when it is written again.
func FuzzBackup(f *testing.F) {
	h, all := sample()
	first := write(f, h, all, true)
	h.Since = 0
	for _, b := range [][]byte{first, write(f, h, all[:1], false)} {
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = resealed(b)
		}
		_, err := Verify(context.Background(), bytes.NewReader(b))
		if err != nil && !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
			t.Fatal(err)
		}
		if err == nil {
			wantSameAgain(t, b)
		}
		c, err := OpenChain(0, []io.Reader{bytes.NewReader(b), bytes.NewReader(b)})
		for err == nil {
			_, _, err = c.Next()
		}
		if err != io.EOF && !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) && !errors.Is(err, ErrChain) {
			t.Fatal(err)
		}
	})
}

// writeJournal returns the journal of a restore.
func writeJournal(t testing.TB, p plan, edits []manifest.Edit) []byte {
	t.Helper()
	var to bytes.Buffer
	w, err := newFrameWriter(&to, typeJournal)
	if err != nil {
		t.Fatal(err)
	}
	err = w.write(newFrame(frameHeader, p.appendTo(nil), nil, nil))
	for i := range edits {
		err = errors.Join(err, w.write(newFrame(frameEdit, edits[i].AppendTo(nil), nil, nil)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// FuzzJournal reads bytes as the journal of a restore, with the fuzzed checksums or with valid
// ones. What is read of it is the same when it is written again.
func FuzzJournal(f *testing.F) {
	p := plan{id: [16]byte{4}, hashSeed: 5, nonces: []uint64{6, 7}}
	sample := writeJournal(f, p, []manifest.Edit{{NextFile: manifest.Some(uint64(9))}})
	for _, b := range [][]byte{sample, sample[:len(sample)-3]} {
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = resealed(b)
		}
		p, edits, end, _, err := readJournal(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if end > int64(len(b)) {
			t.Fatalf("the journal ends at %d of %d bytes", end, len(b))
		}
		again := writeJournal(t, p, edits)
		q, same, end, _, err := readJournal(bytes.NewReader(again))
		equal := func(a, b manifest.Edit) bool { return bytes.Equal(a.AppendTo(nil), b.AppendTo(nil)) }
		if err != nil || end != int64(len(again)) || !bytes.Equal(p.appendTo(nil), q.appendTo(nil)) || !slices.EqualFunc(edits, same, equal) {
			t.Fatalf("%+v with %+v becomes %+v with %+v, %d of %d bytes: %v", p, edits, q, same, end, len(again), err)
		}
	})
}
