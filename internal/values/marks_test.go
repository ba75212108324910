package values

import (
	"math/rand/v2"
	"testing"
)

func TestMarks_StandForVerifiedRecords(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 9))
	for _, shortest := range []int64{recordMin, 200, stretchMin - unit, stretchMin, 1000, 1 << 20} {
		const end = 4 << 20
		var m marks
		m.init(shortest, end)
		empty := m.heapBytes()
		if empty > end/1024 {
			t.Fatalf("shortest %d: %d bytes before the first mark", shortest, empty)
		}
		verified := map[int64]bool{}
		at := int64(fileHeaderSize)
		var all []int64
		for ; at < end-2*shortest; at += shortest + rng.Int64N(4)*unit {
			all = append(all, at)
		}
		for _, at := range all {
			if rng.IntN(2) == 0 {
				m.set(at)
				verified[at] = true
			}
		}
		for _, at := range all {
			if m.has(at) != verified[at] {
				t.Fatalf("shortest %d: the record at %d verified: %v, want %v", shortest, at, m.has(at), verified[at])
			}
			if m.has(at+unit) && shortest > unit {
				t.Fatalf("shortest %d: what lies at %d is no record, and verified", shortest, at+unit)
			}
		}
		if m.clear(); m.has(all[0]) {
			t.Fatalf("shortest %d: verified after clear", shortest)
		}
		if n := m.heapBytes(); n != empty {
			t.Fatalf("shortest %d: %d bytes after clear, at first %d", shortest, n, empty)
		}
	}
}

// A database of a terabyte has thousands of value files. A read of one value of each must not
// take memory for all other values.
func TestMarks_AFewTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const end, few = 128 << 20, 10
	for _, shortest := range []int64{recordMin, 1000} {
		var m marks
		m.init(shortest, end)
		for i := range int64(few) {
			m.set(fileHeaderSize + i*end/few/unit*unit)
		}
		if n := m.heapBytes(); n > 32<<10 {
			t.Errorf("shortest %d: %d marks take %d bytes", shortest, few, n)
		}
	}
}

// A reader that has verified a record may mark it only when the pages were given back.
func TestDropPages_TakesAMarkThatIsSetAfterIt(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 2 * stretchMin} { // marks are bits, and offsets
		values := []stored{{key: []byte("key"), seq: 1, value: make([]byte, size)}}
		data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
		r := mustOpen(t, data, testSalt)
		v, err := r.mapped()
		if err != nil {
			t.Fatal(err)
		}
		before := v.drops.Load()
		if err := r.DropPages(); err != nil {
			t.Fatal(err)
		}
		if v.mark(fileHeaderSize, before); v.marks.has(fileHeaderSize) {
			t.Errorf("%d bytes: what was verified before the pages were given back counts", size)
		}
		if v.mark(fileHeaderSize, v.drops.Load()); !v.marks.has(fileHeaderSize) {
			t.Errorf("%d bytes: what was verified after that does not count", size)
		}
	}
}
