package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// Rules say which versions of keys somebody can still see.
type Rules struct {
	// Snapshots are those that are read or may yet be taken, ascending. The
	// last is what is visible now; there is always that one.
	Snapshots []base.SeqNum
	// Versions is how many versions of a key are kept, at least 1, although
	// no snapshot needs them.
	Versions int
	// NowMs is a moment, in Unix milliseconds, that no reader's clock lies
	// before: what had expired by then counts as deleted. 0 expires nothing.
	NowMs uint64
	// Bottom says that no older versions of the keys exist anywhere else.
	Bottom bool
}

// A Verdict is what becomes of a version.
type Verdict uint8

const (
	// Drop: nobody can see it.
	Drop Verdict = iota
	// Keep it as it is.
	Keep
	// Bury it: keep it as a deletion, without its value, which has expired.
	Bury
)

// Retain judges the versions of one key after another. Versions come newest
// first. A version stays if
//
//   - it is newer than the last snapshot: some later snapshot may need it; or
//   - it is the newest that one of the snapshots sees; or
//   - it is one of the newest Rules.Versions, of those that the last snapshot
//     sees, and none before it was a deletion.
//
// An expired value counts as a deletion in all of this and is kept as one. At
// the bottom, a deletion that every snapshot sees goes, and all that it hides:
// nothing is left for it to hide, and every transaction that might have to
// learn of it, because it has read the key and commits later, began after it.
// A deletion that the oldest snapshot does not see stays for that reason alone.
//
// With snapshots 4 and 9, one version, at the bottom:
//
//	a            b            c            d
//	a#12 SET *   .            .            .
//	a#8  SET *   b#7 DEL *    c#9 SET *    .
//	a#6  SET -   .            c#5 DEL -    .
//	a#3  SET *   b#4 SET *    c#4 DEL -    d#2 DEL -
//	a#1  SET -   b#2 SET -    c#3 SET -    d#1 SET -
//
// a#12 is not visible yet, a#8 is what 9 sees and a#3 what 4 sees. b#7 hides b#4
// from 9, but not from 4. c#5 is hidden from 9 and unseen by 4, and that c#4 is
// gone cannot be told from its being there: 4 finds no c.
//
// A range deletion counts as a version of every key that it covers, which is
// kept elsewhere: what it hides from all snapshots that saw it goes. For
// a version v and a range deletion R > v that is when no snapshot lies in [v, R).
type Retain struct {
	rules  Rules
	covers *rangedel.List
	cursor rangedel.Cursor // over covers, as the last snapshot sees them

	key []byte
	// cover is the newest range deletion over key that the last snapshot sees.
	cover base.SeqNum
	// stripe is the first snapshot that sees the version judged last; older
	// versions in the same stripe are hidden from it and all later ones.
	stripe int
	// spare is how many more versions stay by their number.
	spare int
}

// NewRetain returns a Retain at no key. covers are the range deletions of all
// that is merged.
func NewRetain(rules Rules, covers *rangedel.List) Retain {
	invariant.Check(len(rules.Snapshots) > 0, "no snapshot, not even the present one")
	invariant.Check(rules.Versions >= 1, "keeping %d versions", rules.Versions)
	if invariant.Enabled {
		for i := 1; i < len(rules.Snapshots); i++ {
			invariant.Check(rules.Snapshots[i-1] < rules.Snapshots[i], "snapshots out of order: %v", rules.Snapshots)
		}
	}
	r := Retain{rules: rules, covers: covers}
	r.cursor.Init(false)
	r.cursor.Add(covers, rules.Snapshots[len(rules.Snapshots)-1], 0)
	return r
}

// Begin starts a key, which must stay as it is until its last version has
// been judged.
func (r *Retain) Begin(key []byte) {
	r.key, r.stripe, r.spare = key, len(r.rules.Snapshots), r.rules.Versions
	if !r.cursor.Empty() {
		r.cover, _ = r.cursor.At(key)
	}
}

// Judge says what becomes of the key's next version.
func (r *Retain) Judge(seq base.SeqNum, m *base.Meta) Verdict {
	deleted := !m.Live(r.rules.NowMs)
	stripe := r.stripeOf(seq)
	newest := stripe < r.stripe
	r.stripe = stripe
	switch {
	case stripe == len(r.rules.Snapshots):
		// Not visible yet.
	case r.cover > seq && r.covered(seq, stripe):
		return Drop
	case deleted && stripe == 0 && r.rules.Bottom:
		r.spare = 0
		return Drop
	default:
		counted := r.spare > 0
		if counted {
			r.spare--
		}
		if deleted {
			r.spare = 0
		}
		if !newest && !counted {
			return Drop
		}
	}
	if deleted && m.Kind.HasValue() {
		return Bury
	}
	return Keep
}

// stripeOf returns the index of the oldest snapshot that sees seq, or their
// count. Versions come newest first, so it never rises within a key.
func (r *Retain) stripeOf(seq base.SeqNum) int {
	s := r.rules.Snapshots
	if seq <= s[0] {
		return 0
	}
	from, to := 1, r.stripe
	for from < to {
		mid := int(uint(from+to) / 2)
		if s[mid] < seq {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// covered reports whether a range deletion hides the version from every
// snapshot that would see it. One hides it from the last, which ends the count
// of versions.
func (r *Retain) covered(seq base.SeqNum, stripe int) bool {
	r.spare = 0
	return r.covers.Cover(r.key, r.rules.Snapshots[stripe]) > seq
}
