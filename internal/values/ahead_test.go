package values

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/codec"
)

// mustLookAhead finds values together, in groups, and compares the found ones with the
// expected ones. It returns the number found.
func mustLookAhead(t testing.TB, a *Ahead, r *Reader, values []stored, fetch int) (found int) {
	t.Helper()
	for from := 0; from < len(values); from += AheadSize {
		group := values[from:min(from+AheadSize, len(values))]
		a.Clear() // groups that follow each other would be read ahead
		for _, s := range group {
			a.Add(r, &s.p, s.key, s.seq)
		}
		a.Load(fetch)
		for i, s := range group {
			got, ok := a.Get(i, nil)
			if ok {
				found++
			}
			if ok && !bytes.Equal(got, s.value) {
				t.Fatalf("%d bytes at %+v, want %d", len(got), s.p, len(s.value))
			}
		}
	}
	return found
}

// inOnePiece reports whether the value is stored unchunked.
func inOnePiece(t testing.TB, r *Reader, s stored) bool {
	t.Helper()
	vr, err := r.NewValueReader(s.p, s.key, s.seq)
	if err != nil {
		t.Fatal(err)
	}
	return !vr.h.chunked()
}

func TestAhead_FindsOnlyVerifiedValues(t *testing.T) {
	t.Parallel()
	var a Ahead
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		values := append(randomValues(rng, 300), largeValues(rng)...)
		data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.ID(seed % 3)})
		r := mustOpen(t, data, testSalt)
		if seed >= 2 {
			data, _, err := rewrite(t, r, liveOf(values), testSalt+1)
			if err != nil {
				t.Fatal(err)
			}
			r = mustOpen(t, data, testSalt+1)
		}
		for _, fetch := range []int{-1, 0, 3, AheadSize} {
			if n := mustLookAhead(t, &a, r, values, fetch); n > 0 {
				t.Fatalf("%d values were found before anybody verified them", n)
			}
		}
		for i := range values {
			one := values[i : i+1]
			mustHave(t, r, one) // a record displaces others that share its mark
			if found := mustLookAhead(t, &a, r, one, 1) == 1; found != inOnePiece(t, r, one[0]) {
				t.Fatalf("value %d was found: %t", i, found)
			}
		}
		mustLookAhead(t, &a, r, values, 1)
		if err := r.DropPages(); err != nil {
			t.Fatal(err)
		}
		if n := mustLookAhead(t, &a, r, values, AheadSize); n > 0 {
			t.Fatalf("%d values were found after they were given back", n)
		}
	}
	a.Clear()
}

// Large commits and ingests write values before their version is known.
func TestAhead_FindsRecordsWithoutAVersion(t *testing.T) {
	t.Parallel()
	values := randomValues(rand.New(rand.NewPCG(7, 8)), 100)
	for i := range values {
		values[i].seq = 0
	}
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	var a Ahead
	for i := range values {
		values[i].seq = 9
		mustHave(t, r, values[i:i+1])
		if mustLookAhead(t, &a, r, values[i:i+1], 1) != 1 {
			t.Fatalf("value %d was not found", i)
		}
	}
}

func TestAhead_WrongRecordFindsNothing(t *testing.T) {
	t.Parallel()
	values := randomValues(rand.New(rand.NewPCG(3, 6)), 40)
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	for i, s := range values {
		other := values[(i+1)%len(values)]
		off, length, value := s.p, s.p, s.p
		off.Offset += 8
		length.units++
		value.ValueLen++
		mustHave(t, r, []stored{other, s})
		var a Ahead
		wrong := []Pointer{other.p, off, length, value, NewPointer(0, 1<<34, 64, 0), NewPointer(0, 0, 64, 0), {}}
		for _, p := range wrong {
			a.Add(r, &p, s.key, s.seq)
		}
		a.Add(nil, &s.p, s.key, s.seq)
		a.Add(r, &s.p, append(bytes.Clone(s.key), 0), s.seq)
		a.Add(r, &s.p, s.key, s.seq+1)
		a.Add(r, &s.p, other.key, s.seq)
		right := len(wrong) + 4
		a.Add(r, &s.p, s.key, s.seq)
		a.Load(AheadSize)
		for j := range right {
			if _, ok := a.Get(j, nil); ok || a.Found(j) != nil {
				t.Fatalf("value %d was found by wrong entry %d", i, j)
			}
		}
		if got, ok := a.Get(right, nil); !ok || !bytes.Equal(got, s.value) {
			t.Fatalf("value %d was not found", i)
		}
	}
}

// Each part is requested only once. So a reader must not mistake one part for another.
func TestAdvice_IsOneRangeUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	const page = 1 << adviceShift
	var a advice
	a.set(0, page)
	var askers, looker sync.WaitGroup
	ended := make(chan struct{})
	for worker := range int64(2) {
		askers.Go(func() {
			for i := range int64(20_000) {
				at := (2*i + worker) * 1_000 * page
				a.set(at+1, at+page-1)
			}
		})
	}
	looker.Go(func() {
		for {
			if from, to := a.get(); to-from != page {
				t.Errorf("asked for [%d, %d)", from, to)
				return
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	askers.Wait()
	close(ended)
	looker.Wait()
}
