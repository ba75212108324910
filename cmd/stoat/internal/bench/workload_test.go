package bench

import (
	"errors"
	"fmt"
	"testing"
)

// sizes are value sizes around multiples of the word size.
var sizes = []int{0, 1, 7, 8, 9, 12, 15, 16, 17, 100, 128}

func TestKeys_AreFormattedAndParsed(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 128, 99999, 1 << 20} {
		w := newWorkload(1000, size, 1)
		key := w.newKey()
		for _, number := range []uint64{0, 1, 42, w.space - 1} {
			w.putKey(key, number)
			if want := fmt.Sprintf("vsz=%05d-k=%010d", size, number); string(key) != want {
				t.Errorf("key is %q, want %q", key, want)
			}
			if got, err := w.number(key); err != nil || got != number {
				t.Errorf("number(%q) = %d, %v", key, got, err)
			}
		}
	}
	w := newWorkload(1000, 128, 1)
	key := w.newKey()
	w.putKey(key, 9_876_543_210)
	if string(key) != "vsz=00128-k=9876543210" || len(key) != 22 {
		t.Errorf("key of the largest number is %q", key)
	}
}

func TestKeys_ForeignKeysAreWrong(t *testing.T) {
	t.Parallel()
	w := newWorkload(1000, 128, 1)
	for _, key := range []string{
		"", "x", "vsz=00128-k=", "vsz=00128-k=000000000", "vsz=00128-k=00000000001",
		"vsz=00129-k=0000000001", "vsz=00128-k=00000000x1", "vsz=00128-k=9999999999", "vsz=00128-k=-000000001",
	} {
		if _, err := w.number([]byte(key)); !errors.Is(err, ErrWrong) {
			t.Errorf("key %q: error %v, want ErrWrong", key, err)
		}
	}
}

func TestPermute_HitsEachNumberOnce(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 2, 3, 10, 632, 1000, 40_001} {
		w := newWorkload(keys, 8, 7)
		seen := make([]bool, w.space)
		rising := 0
		var last uint64
		for i := range w.space {
			n := w.permute(i)
			if n >= w.space || seen[n] {
				t.Fatalf("keys=%d: permute(%d) = %d is out of range or a duplicate", keys, i, n)
			}
			seen[n] = true
			if n > last {
				rising++
			}
			last = n
		}
		if keys >= 632 && (rising < int(w.space)*4/10 || rising > int(w.space)*6/10) {
			t.Errorf("keys=%d: %d of %d steps rise, which is not a random order", keys, rising, w.space)
		}
	}
}

func TestValues_CheckAgainstThemselvesOnly(t *testing.T) {
	t.Parallel()
	for i, size := range append(sizes, sizes...) {
		w := newWorkload(1000, size, 3)
		w.text = i >= len(sizes)
		v := w.value([]byte("before"), 5, 2)
		if string(v[:6]) != "before" {
			t.Fatalf("size %d: value changed earlier bytes of dst", size)
		}
		v = v[6:]
		if len(v) != size {
			t.Fatalf("value has %d bytes, want %d", len(v), size)
		}
		if err := w.checkAll(v, 5, 2); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
		if err := w.checkEnds(v, 5, 2); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
		if got, want := ends(v), w.wantEnds(5, 2); got != want {
			t.Errorf("size %d: ends are %x, want %x", size, got, want)
		}
		if err := w.checkEnds(append(v, 0), 5, 2); !errors.Is(err, ErrWrong) {
			t.Errorf("size %d: one byte more passed", size)
		}
		if size == 0 {
			continue
		}
		if err := w.checkEnds(v[:size-1], 5, 2); !errors.Is(err, ErrWrong) {
			t.Errorf("size %d: one byte less passed", size)
		}
		for at := range v {
			v[at] ^= 0x10
			if err := w.checkAll(v, 5, 2); !errors.Is(err, ErrWrong) {
				t.Errorf("size %d: a flipped bit in byte %d passed", size, at)
			}
			if atEnd := at < 8 || at >= size-8; atEnd && w.checkEnds(v, 5, 2) == nil {
				t.Errorf("size %d: a flipped bit in byte %d passed at the ends", size, at)
			}
			v[at] ^= 0x10
		}
	}
}

func TestValues_DifferByKeyVersionAndSeed(t *testing.T) {
	t.Parallel()
	w, other := newWorkload(1000, 16, 3), newWorkload(1000, 16, 4)
	v := w.value(nil, 5, 2)
	for name, same := range map[string]error{
		"another key":     w.checkEnds(v, 6, 2),
		"another version": w.checkEnds(v, 5, 3),
		"another seed":    other.checkEnds(v, 5, 2),
	} {
		if !errors.Is(same, ErrWrong) {
			t.Errorf("the value of %s is the same", name)
		}
	}
}

func TestOracle_VersionsNeverReturnToAbsent(t *testing.T) {
	t.Parallel()
	o := newOracle(1)
	for range 600 {
		o.versions[0] = o.next(0)
		if o.versions[0] == 0 {
			t.Fatal("a written key has version 0")
		}
	}
}

func TestOracle_TotalsCountOnlyExistingKeys(t *testing.T) {
	t.Parallel()
	w := newWorkload(1000, 24, 3)
	o := newOracle(w.space)
	o.versions[3], o.versions[9] = 1, 7
	want := totals{keys: 2}
	key := w.newKey()
	for _, n := range []uint64{3, 9} {
		w.putKey(key, n)
		want.keySum += keyEnd(key)
		want.endsSum += ends(w.value(nil, n, o.versions[n]))
	}
	if got := o.totals(&w); got != want {
		t.Errorf("totals are %+v, want %+v", got, want)
	}
}

func BenchmarkPutKey(b *testing.B) {
	w := newWorkload(1_000_000, 128, 1)
	key := w.newKey()
	for i := range b.N {
		w.putKey(key, uint64(i)%w.space)
	}
}

func BenchmarkPermute(b *testing.B) {
	w := newWorkload(1_000_000, 128, 1)
	for i := range b.N {
		w.permute(uint64(i) % w.space)
	}
}

func BenchmarkCheckEnds(b *testing.B) {
	w := newWorkload(1_000_000, 128, 1)
	v := w.value(nil, 1, 1)
	for b.Loop() {
		if err := w.checkEnds(v, 1, 1); err != nil {
			b.Fatal(err)
		}
	}
}
