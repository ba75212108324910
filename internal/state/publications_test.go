package state

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

func TestPublications_AgeOfASnapshotIsNeverTooLongAndLittleTooShort(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var p publications
		after := []int64{0} // [seq] is when the version after seq became visible
		now := int64(1)
		for range 3000 {
			// From many in a second to one in a day, a run of one kind at a time.
			kind := int64(time.Microsecond) << (rng.IntN(4) + 5*rng.IntN(8))
			for range rng.IntN(20) {
				now += 1 + rng.Int64N(kind)
				p.note(base.SeqNum(len(after)), now)
				after[len(after)-1] = now
				after = append(after, 0)
			}
			later := now + rng.Int64N(kind)
			seq := rng.IntN(len(after))
			if rng.IntN(2) == 0 {
				seq = max(0, len(after)-1-rng.IntN(100))
			}
			age := time.Duration(0)
			if seq < len(after)-1 {
				age = time.Duration(later - after[seq])
			}
			told := p.since(base.SeqNum(seq), later)
			if told > age || told < (age-time.Second)*publicationPart/(publicationPart+1) {
				t.Fatalf("seed %d: the version after %d of %d is %v old, told is %v", seed, seq, len(after)-1, age, told)
			}
		}
		if n := len(p.past); n > 500 {
			t.Errorf("seed %d: %d publications are remembered after %v", seed, n, time.Duration(now))
		}
	}
}

// A commit may become visible between the moment that Stats takes and its look at the history.
func TestPublications_NoAgeIsNegative(t *testing.T) {
	t.Parallel()
	var p publications
	for _, at := range []int64{100, 100 + publicationEvery} { // the second one is remembered
		p.note(base.SeqNum(at), at)
		if age := p.since(base.SeqNum(at-1), at-1); age != 0 {
			t.Errorf("the version of moment %d is %v old one nanosecond before it", at, age)
		}
	}
}
