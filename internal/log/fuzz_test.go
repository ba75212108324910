package log

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fuzzSegment makes a segment from a script. Each byte is a frame or a change of
// the durable offset, so that scripts cover all orders of frames, legal and not.
func fuzzSegment(ref base.SegmentRef, script []byte) []byte {
	b := record.NewBuilder(ref.Salt, record.MaxPayload, nil)
	durable := int64(0)
	for i, c := range script {
		payload := bytes.Repeat([]byte{c}, int(c>>4))
		kind := record.Kind(c & 7)
		switch kind {
		case 0:
			durable = b.Offset()
			continue
		case record.Next:
			payload = appendSuccessor(nil, base.SegmentRef{Number: ref.Number + 1 + uint64(c>>7), File: 2, Salt: ref.Salt})
			if c&8 != 0 {
				payload = payload[:i%len(payload)]
			}
		}
		b.SetEarly(c&8 != 0)
		b.Frame(kind, payload, durable)
	}
	frames, _ := b.Sealed()
	size := record.Start + len(frames) + 40
	file := record.AppendHeader(nil, record.Header{Type: record.TypeLog,
		Number: ref.Number, File: ref.File, Salt: ref.Salt, Size: int64(size)})
	return append(append(file, frames...), make([]byte, 40)...)
}

// writeFile makes a file of the log with the given content.
func writeFile(t *testing.T, o *Options, file uint64, content []byte) {
	t.Helper()
	h, err := o.FS.Create(o.path(file), vfs.CatLog)
	must(t, err)
	_, err = h.WriteAt(content, 0)
	must(t, err)
	must(t, h.Close())
}

// FuzzLogReplay recovers a log of two segments with valid frames in any order and
// damage at one place. The result is corruption, or transactions that a new span
// keeps and a second recovery finds again.
func FuzzLogReplay(f *testing.F) {
	whole, first, middle, last, mark, next := byte(0x31), byte(0x52), byte(0x53), byte(0x54), byte(5), byte(6)
	f.Add([]byte{whole, whole, 0, whole, next}, []byte{whole, first, middle, last, mark, 7}, uint32(0), byte(0))
	f.Add([]byte{whole, 0, first, middle}, []byte{}, uint32(record.Start+5), byte(1))
	f.Add([]byte{whole, next}, []byte{0, whole, 0, whole, first}, uint32(record.Start+80), byte(2))
	f.Add([]byte{last}, []byte{whole}, uint32(0), byte(0))
	f.Add([]byte{next | 0x80}, []byte{whole}, uint32(0), byte(0))
	f.Add([]byte{whole, 0, next}, []byte{whole, 7, 0, whole}, uint32(0), byte(0)) // goes on behind its close frame
	f.Fuzz(func(t *testing.T, one, two []byte, at uint32, flip byte) {
		if len(one)+len(two) > 2000 {
			return
		}
		refs := []base.SegmentRef{{Number: 1, File: 1, Salt: 77}, {Number: 2, File: 2, Salt: 77}}
		fs := memfs.NewVolatile()
		must(t, fs.MkdirAll(testDir))
		o := testOptions(fs, 1)
		for i, script := range [][]byte{one, two} {
			b := fuzzSegment(refs[i], script)
			if i == int(at>>31) {
				b[int(at&(1<<31-1))%len(b)] ^= flip
			}
			writeFile(t, &o, refs[i].File, b)
		}
		replayed := func(spans []base.LogSpan) ([][]byte, Recovered, error) {
			var all [][]byte
			r, err := recoverAll(o, spans, func(p []byte) error {
				all = append(all, bytes.Clone(p))
				return nil
			})
			return all, r, err
		}
		got, r, err := replayed([]base.LogSpan{{First: refs[0]}})
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) {
				t.Fatalf("%v is not corruption", err)
			}
			return
		}
		w, err := Create(o, r)
		must(t, err)
		spans := append(r.Spans[:len(r.Spans):len(r.Spans)], base.LogSpan{First: w.First()})
		must(t, appendTx(w, []byte("one more")))
		must(t, w.Close())
		again, _, err := replayed(spans)
		if err != nil || len(again) != len(got)+1 {
			t.Fatalf("%d transactions, then %d: %v", len(got), len(again), err)
		}
		for i := range got {
			if !bytes.Equal(got[i], again[i]) {
				t.Fatalf("transaction %d: %x, then %x", i, got[i], again[i])
			}
		}
	})
}

// FuzzFileName parses any name. ParseFileName refuses it, or the name is the only
// one for its number.
func FuzzFileName(f *testing.F) {
	for _, name := range []string{FileName(1), FileName(record.NumberMax), "1.log", "0000001.log", "000001.log.log", "٠٠٠٠٠١.log"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if file, ok := ParseFileName(name); ok && (FileName(file) != name || file > record.NumberMax) {
			t.Fatalf("%q is log file %d, which is %q", name, file, FileName(file))
		}
	})
}
