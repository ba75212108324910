package behaviour

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// largeValues makes the largest value out of the large one, and a gigabyte out of
// the large transactions: that takes a minute or two on a slow disk.
var largeValues = flag.Bool("stoat.large", false, "test the largest value that there can be, and transactions of a gigabyte, not only large ones")

// A numberedReader gives n bytes, no two pages of them the same: each begins
// with its number. As it goes it looks how large the heap has become.
type numberedReader struct {
	n, at int64
	heap  int64
}

const numberedPage = 4096

var numberedRest = bytes.Repeat([]byte("numbered"), numberedPage/8)

func (r *numberedReader) Read(b []byte) (int, error) {
	if r.at == r.n {
		return 0, io.EOF
	}
	if r.at%(32<<20) == 0 {
		r.heap = max(r.heap, heapSize())
	}
	off := r.at % numberedPage
	b = b[:min(int64(len(b)), r.n-r.at, numberedPage-off)]
	n := 0
	if off < 8 {
		var number [8]byte
		binary.LittleEndian.PutUint64(number[:], uint64(r.at/numberedPage))
		n = copy(b, number[off:])
	}
	copy(b[n:], numberedRest[off+int64(n):])
	r.at += int64(len(b))
	return len(b), nil
}

func heapSize() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A value much larger than the memory budget, on a disk: no part of the database
// keeps it in memory, and it is there after reopening. With -stoat.large it is the
// largest possible value, and one byte more is refused and leaves nothing. The test
// runs alone, because it measures the memory of the process.
func TestLargeValue_TakesLittleMemory(t *testing.T) {
	dir := t.TempDir()
	const heapMax = 64 << 20
	opts := &stoat.Options{MemoryBudget: 32 << 20}
	size := int64(160<<20 - 1) // like the largest, it ends before its last page does
	if *largeValues {
		size = stoat.MaxValueSize
	}
	if free, err := vfs.OS().Free(dir); err != nil || free < uint64(size)*3/2 {
		t.Skipf("%d bytes are free in %s, error %v, for a value of %d", free, dir, err, size)
	}
	runtime.GC() // what earlier tests dropped is not this one's
	before := heapSize()
	db, err := stoat.Open(dir, opts)
	testkit.Must(t, err)
	write := func(n int64) error {
		r := &numberedReader{n: n}
		err := db.Update(func(tx stoat.Txn) error { return tx.SetReader([]byte("large"), r) })
		if grown := r.heap - before; grown > heapMax {
			t.Errorf("the heap grows by %d MiB while a value is written", grown>>20)
		}
		return err
	}
	if *largeValues {
		testkit.WantError(t, "a byte too many", write(stoat.MaxValueSize+1), stoat.ErrValueTooLarge)
		names, err := vfs.OS().List(dir)
		testkit.Must(t, err)
		if all := strings.Join(names, " "); strings.Contains(all, ".values") {
			t.Errorf("after a value that was refused there are %s", all)
		}
	}
	testkit.Must(t, write(size))
	testkit.Must(t, db.Close())

	db, err = stoat.Open(dir, opts)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		item, err := tx.GetItem([]byte("large"))
		if err != nil || item.ValueSize() != size {
			t.Fatalf("the value has %d bytes, error %v", item.ValueSize(), err)
		}
		r, err := item.Reader()
		if err != nil {
			return err
		}
		want := &numberedReader{n: size}
		a, b := make([]byte, 1<<20), make([]byte, 1<<20)
		for at := int64(0); ; {
			n, err := io.ReadFull(r, a)
			m, wantErr := io.ReadFull(want, b)
			if n != m || !bytes.Equal(a[:n], b[:m]) {
				t.Fatalf("the bytes differ after %d", at)
			}
			at += int64(n)
			if wantErr != nil {
				if at != size || !errors.Is(err, wantErr) {
					t.Fatalf("the value ends after %d bytes with %v", at, err)
				}
				break
			}
			testkit.Must(t, err)
		}
		if grown := want.heap - before; grown > heapMax {
			t.Errorf("the heap grows by %d MiB while a value is read", grown>>20)
		}
		// The end of it, without what is before.
		if _, err := r.Seek(-5, io.SeekEnd); err != nil {
			return err
		}
		tail, err := io.ReadAll(r)
		if want := numberedRest[numberedPage-6 : numberedPage-1]; err != nil || !bytes.Equal(tail, want) {
			t.Errorf("the last bytes are %q, error %v, want %q", tail, err, want)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}
