package record

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// A growing file has only zeros behind the bytes that were written so far.
type growing struct {
	all     []byte
	written int
}

func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(g.written) {
		copy(p, g.all[off:g.written])
	}
	return len(p), nil
}

// What the reader has read ahead may be older than what the file has.
func TestFollow_EndsOnlyWhereTheFileEndsNow(t *testing.T) {
	t.Parallel()
	const salt = 77
	b := NewBuilder(salt, 300, nil)
	var ends []int
	for i := range 3 {
		b.Record(bytes.Repeat([]byte{byte(i + 1)}, 100), 0)
		ends = append(ends, int(b.Offset()))
	}
	frames, at := b.Sealed()
	file := &growing{all: append(make([]byte, at), frames...), written: ends[1]}
	r := NewReader(file, int64(len(file.all)), salt, nil)
	r.Follow()
	for i := range 3 {
		rec, err := r.NextRecord()
		if err != nil || len(rec.Payload) != 100 || rec.Payload[0] != byte(i+1) {
			t.Fatalf("record %d: %d bytes, %v", i, len(rec.Payload), err)
		}
		file.written = len(file.all) // once the first record was read
	}
	if _, err := r.NextRecord(); err != io.EOF {
		t.Errorf("behind the last record: %v", err)
	}
}

func TestFollow_ReturnsEachRecordOnceItIsWritten(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	const salt, payloadMax = 77, 300
	b := NewBuilder(salt, payloadMax, nil)
	var want [][]byte
	for i := range 40 {
		p := make([]byte, rng.IntN(1000))
		for j := range p {
			p[j] = byte(rng.Uint32())
		}
		want = append(want, p)
		b.Record(p, 0)
		if i%7 == 0 {
			b.Frame(Mark, nil, b.Offset())
		}
	}
	frames, at := b.Sealed()
	file := &growing{all: append(make([]byte, at), frames...), written: int(at)}
	r := NewReader(file, int64(len(file.all)), salt, nil)
	r.Follow()
	for file.written < len(file.all) {
		file.written = min(file.written+1+rng.IntN(200), len(file.all))
		for {
			rec, err := r.NextRecord()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Kind == Mark {
				continue
			}
			if rec.End-alignment >= int64(file.written) || // the padding is zeros
				!bytes.Equal(rec.Payload, want[0]) {
				t.Fatalf("a record of %d bytes at %d, with %d written; %d are left", len(rec.Payload), rec.Offset, file.written, len(want))
			}
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("%d records are missing", len(want))
	}
}

func TestKept_NoticesThatTheLastFrameIsAnotherOne(t *testing.T) {
	t.Parallel()
	const salt = 77
	build := func(payload string) (frames []byte, at int64) {
		b := NewBuilder(salt, MaxPayload, nil)
		b.Record([]byte(payload), 0)
		return b.Sealed()
	}
	frames, at := build("the sync of this record fails")
	file := &growing{all: append(make([]byte, at), frames...), written: int(at)}
	r := NewReader(file, int64(len(file.all)), salt, nil)
	r.Follow()
	check := func(what string, want bool) {
		t.Helper()
		if kept, err := r.Kept(); err != nil || kept != want {
			t.Errorf("%s: kept %t, %v", what, kept, err)
		}
	}
	check("before the first frame", true)
	file.written = len(file.all)
	if _, err := r.NextRecord(); err != nil {
		t.Fatal(err)
	}
	check("the frame was read", true)
	file.written = int(at)
	check("the frame is lost", false)
	frames, _ = build("another record in its place..")
	copy(file.all[at:], frames)
	file.written = len(file.all)
	check("another frame is there", false)
}
