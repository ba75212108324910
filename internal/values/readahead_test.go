package values

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/testing/noise"
)

// inFileOrder returns values for a file of a few MiB.
func inFileOrder() (values []stored) {
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range 3000 {
		values = append(values, stored{key: fmt.Appendf(nil, "key-%05d", i), seq: 7, value: noise.Bytes(rng, 1000+i%400)})
	}
	return values
}

// loadRound loads a round of values, as a scan does on two processors.
func loadRound(a *Ahead, r *Reader, round []stored) { loadRoundOn(2, a, r, round) }

// loadRoundOn is loadRound on a machine with so many processors.
func loadRoundOn(processors int, a *Ahead, r *Reader, round []stored) {
	a.Begin()
	for _, s := range round {
		a.Add(r, &s.p, s.key, s.seq)
	}
	a.load(AheadSize, func() int { return processors })
}

// untilEnded waits for the end of the readahead.
func untilEnded(t *testing.T, a *Ahead) {
	t.Helper()
	for began := time.Now(); a.forward.running.Load(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the readahead does not end")
		}
	}
}

// verifiedOf returns how many of the values are verified.
func verifiedOf(r *Reader, values []stored) (n int) {
	for _, s := range values {
		if r.v.Load().marks.has(s.p.Offset) {
			n++
		}
	}
	return n
}

func TestReadahead_OneProcessorIsLeftToTheScan(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	var a Ahead
	defer a.Clear()
	for from := 0; from < 4*AheadSize; from += AheadSize {
		loadRoundOn(1, &a, r, values[from:from+AheadSize])
		untilEnded(t, &a)
	}
	if n := verifiedOf(r, values); n != 0 {
		t.Errorf("%d values are verified ahead", n)
	}
}

func TestReadahead_TwoRoundsInFileOrderVerifyWhatFollows(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	var a Ahead
	defer a.Clear()
	verified := func() int { return verifiedOf(r, values) }
	loadRound(&a, r, values[:AheadSize])
	if untilEnded(t, &a); verified() != 0 {
		t.Errorf("one round verified %d values ahead", verified())
	}
	loadRound(&a, r, values[AheadSize:2*AheadSize])
	untilEnded(t, &a)
	n := verified()
	if n < 500 || n > 2000 {
		t.Errorf("%d values are verified ahead, want about %d bytes", n, readaheadMin)
	}
	loadRound(&a, r, values[2*AheadSize:3*AheadSize])
	mustHave(t, r, values)

	// Rounds that jump start nothing.
	if err := r.DropPages(); err != nil {
		t.Fatal(err)
	}
	a.Clear()
	for _, from := range []int{2000, 1000, 2500, 0} {
		loadRound(&a, r, values[from:from+AheadSize])
		untilEnded(t, &a)
	}
	if n := verified(); n != 0 {
		t.Errorf("rounds in no order verified %d values ahead", n)
	}
}

// A byte of each value is flipped in turn. A scan must report it, and find all others,
// however far the readahead is.
func TestReadahead_TheScanReportsEachDamagedValue(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	for _, wrong := range []int{0, 63, 64, 150, 300, 1000, 2999} {
		damaged := bytes.Clone(data)
		damaged[values[wrong].p.Offset+values[wrong].p.Length()/2] ^= 4
		r := mustOpen(t, damaged, testSalt)
		var a Ahead
		for from := 0; from < len(values); from += AheadSize {
			round := values[from:min(from+AheadSize, len(values))]
			loadRound(&a, r, round)
			for i, s := range round {
				got, ok := a.Get(i, nil)
				if !ok {
					var err error
					if got, err = r.Get(s.p, s.key, s.seq, nil); (err != nil) != (from+i == wrong) {
						t.Fatalf("value %d of a file with damage in value %d: %v", from+i, wrong, err)
					}
				}
				if from+i != wrong && !bytes.Equal(got, s.value) {
					t.Fatalf("value %d is wrong", from+i)
				}
				if ok && from+i == wrong {
					t.Fatalf("the damaged value %d was taken for verified", wrong)
				}
			}
		}
		a.Clear()
	}
}

func TestReadahead_ClearEndsIt(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	for range 50 {
		r, err := openBytes(t, data, testSalt)
		if err != nil {
			t.Fatal(err)
		}
		var a Ahead
		for from := 0; from < 4*AheadSize; from += AheadSize {
			loadRound(&a, r, values[from:from+AheadSize])
		}
		a.Clear()
		if a.forward.running.Load() {
			t.Fatal("the readahead outlives the scan")
		}
		if err := r.Close(); err != nil { // unmaps the file
			t.Fatal(err)
		}
	}
}
