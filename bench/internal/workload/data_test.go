package workload

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

func TestKeys_TextIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 7, 1999999, 9999999999} {
		keys := NewKeys(1024)
		var key Key
		keys.Put(&key, n)
		if want := fmt.Sprintf("vsz=%05d-k=%010d", 1024, n); string(key[:]) != want {
			t.Errorf("key %d is %q, want %q", n, key, want)
		}
		if got, ok := keys.Number(key[:]); !ok || got != n {
			t.Errorf("key %q has number %d, %t", key, got, ok)
		}
	}
}

func TestKeys_ForeignKeyHasNoNumber(t *testing.T) {
	t.Parallel()
	keys := NewKeys(1024)
	for _, key := range []string{"", "vsz=01024-k=000000000", "vsz=00128-k=0000000001", "vsz=01024-k=00000000x1", "vsz=01024-k=x000000001",
		"vsz=01024-k=000:000001", "vsz=01024-k=000/000001", "vsz=01024-k=000000000:", "vsz=01024-kk0000000001", "vsz=01024-k=00000000001"} {
		if n, ok := keys.Number([]byte(key)); ok {
			t.Errorf("%q passes for key %d", key, n)
		}
	}
}

func allValues() []Values {
	return []Values{{Size: 16}, {Size: 128}, {Size: 1024}, {Size: 16 << 10}, {Size: 64 << 10}, {Size: 1024, JSON: true}}
}

func TestValues_TellTheirVersion(t *testing.T) {
	t.Parallel()
	for _, v := range allValues() {
		value, scratch := make([]byte, v.Size), make([]byte, v.Size)
		for _, version := range []uint64{0, 1, 3 << 32} {
			v.Fill(value, 42, version)
			if got, err := v.Check(value, 42); err != nil || got != version {
				t.Errorf("%+v: version %d, %v, want %d", v, got, err, version)
			}
			if got, err := v.CheckWhole(value, 42, scratch); err != nil || got != version {
				t.Errorf("%+v: whole value has version %d, %v, want %d", v, got, err, version)
			}
		}
	}
}

func TestValues_ChangedValueIsWrong(t *testing.T) {
	t.Parallel()
	for _, v := range allValues() {
		value, scratch := make([]byte, v.Size), make([]byte, v.Size)
		for i := range value {
			if i > 100 && i < len(value)-100 && i%(1+len(value)/1000) != 0 {
				continue
			}
			v.Fill(value, 42, 5)
			value[i] ^= 0x10
			version, err := v.CheckWhole(value, 42, scratch)
			if err == nil && version == 5 {
				t.Fatalf("%+v: a change of byte %d is not seen", v, i)
			}
			if err != nil && !errors.Is(err, ErrWrong) {
				t.Fatalf("%+v: a change of byte %d is %v, want ErrWrong", v, i, err)
			}
		}
		if _, err := v.Check(value[:len(value)-1], 42); !errors.Is(err, ErrWrong) {
			t.Errorf("%+v: a short value is %v, want ErrWrong", v, err)
		}
	}
}

func TestValues_OfAnotherKeyHaveNoPlausibleVersion(t *testing.T) {
	t.Parallel()
	v := Values{Size: 128}
	value := make([]byte, v.Size)
	v.Fill(value, 42, 5)
	if version, err := v.Check(value, 43); err != nil || version < 1<<40 {
		t.Errorf("the value of key 42 passes for version %d of key 43, %v", version, err)
	}
}

// compressedShare returns the compressed share of 200 values in sequence.
func compressedShare(t *testing.T, v Values) float64 {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, v.Size)
	for key := range uint64(200) {
		v.Fill(value, key, 0)
		if _, err := w.Write(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return float64(out.Len()) / float64(200*v.Size)
}

func TestValues_RandomOnesDoNotCompressAndTextDoes(t *testing.T) {
	t.Parallel()
	for _, v := range allValues() {
		share := compressedShare(t, v)
		if v.JSON && (share < 0.2 || share > 0.5) {
			t.Errorf("%+v compresses to %.2f, want about a third", v, share)
		}
		if !v.JSON && share < 0.99 {
			t.Errorf("%+v compresses to %.3f, want no less than it was", v, share)
		}
	}
}

func TestValues_TextIsJSON(t *testing.T) {
	t.Parallel()
	v := Values{Size: 1024, JSON: true}
	value := make([]byte, v.Size)
	for key := range uint64(300) {
		v.Fill(value, key, 1)
		if !json.Valid(value) {
			t.Fatalf("the value of key %d is not JSON: %s", key, value)
		}
	}
}

func TestPopulation_AboutTwoThirdsExist(t *testing.T) {
	t.Parallel()
	p := NewPopulation(200000, Values{Size: 128})
	present := p.Present()
	if share := float64(present.Count()) / float64(p.Count); share < 0.62 || share > 0.645 {
		t.Errorf("%.3f of the keys exist, want 0.632", share)
	}
	seen := uint64(0)
	for n, ok := present.Next(0); ok; n, ok = present.Next(n + 1) {
		if !present.Has(n) {
			t.Fatalf("next names %d, which is absent", n)
		}
		seen++
	}
	if seen != present.Count() {
		t.Errorf("next visits %d of %d", seen, present.Count())
	}
}

func TestPermutation_VisitsEachNumberOnce(t *testing.T) {
	t.Parallel()
	for _, count := range []uint64{1, 2, 3, 10, 1000, 65536, 99999} {
		p, seen := NewPermutation(count), NewBitset(count)
		for i := range count {
			seen.Set(p.At(i))
		}
		if seen.Count() != count {
			t.Errorf("%d of %d numbers visited", seen.Count(), count)
		}
	}
}

func TestZipf_FollowsItsLaw(t *testing.T) {
	t.Parallel()
	const n, draws = 100000, 400000
	z, r := newZipf(n), newRandom(3)
	var first, hundred int
	for range draws {
		rank := z.rank(r)
		if rank >= n {
			t.Fatalf("rank %d of %d", rank, n)
		}
		if rank == 0 {
			first++
		}
		if rank < 100 {
			hundred++
		}
	}
	if got, want := float64(first)/draws, 1/z.zeta; got < want*0.95 || got > want*1.05 {
		t.Errorf("rank 0 has a share of %.4f, want %.4f", got, want)
	}
	// The sum of the first hundred terms is about 5.31 at this skew.
	if got, want := float64(hundred)/draws, 5.31/z.zeta; got < want*0.93 || got > want*1.07 {
		t.Errorf("the first 100 ranks have a share of %.4f, want %.4f", got, want)
	}
}
