package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// Rules say which versions of keys a reader can still see.
type Rules struct {
	// Snapshots are those in use or that may still be taken, ascending. The last is the
	// present one. There is always at least that one.
	Snapshots []base.SeqNum
	// Versions is the number of versions of a key, at least 1, that are kept even if no
	// snapshot needs them.
	Versions int
	// VersionsOf returns Versions for a keyspace. If it is nil, Versions holds for all.
	VersionsOf func(keyspace uint32) int
	// NowMs is a time in Unix milliseconds that no reader's clock is before. Entries
	// expired by then count as deleted. 0 expires nothing.
	NowMs uint64
	// Bottom says that no older versions of the keys exist anywhere else.
	Bottom bool
	// Above reports whether a newer partial entry of the key may exist elsewhere. It
	// refers to the newest version here, which is then kept although it has expired.
	// Above is called after NowMs was read. nil means never.
	Above func(key []byte) bool
}

// A Verdict says what happens to a version.
type Verdict uint8

const (
	// Drop removes the version: no reader can see it.
	Drop Verdict = iota
	// Keep keeps it unchanged.
	Keep
	// KeepTombstone keeps it as a tombstone, without its value, which has expired.
	KeepTombstone
)

// Retain judges the versions of one key after another. Versions come newest first. A version
// stays if
//
//   - it is newer than the last snapshot: a later snapshot may need it; or
//   - it is the newest that one of the snapshots sees; or
//   - it is one of the newest Rules.Versions that the last snapshot sees, without a
//     tombstone before it.
//
// An expired value counts as a tombstone in all of this and is kept as one. At the bottom, a
// tombstone that every snapshot sees is dropped, with everything that it hides. It has
// nothing left to hide. Every transaction that might conflict with it, because it read the
// key and commits later, began after it. A tombstone that the oldest snapshot does not see
// stays for that reason alone.
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
// a#12 is not visible yet; 9 sees a#8, and 4 sees a#3. b#7 hides b#4 from 9, but not from 4.
// c#5 is hidden from 9 and unseen by 4. Dropping c#4 changes nothing for 4, which finds no c
// either way.
//
// A range tombstone counts as a version of every key that it covers, and is kept elsewhere.
// What it hides from all snapshots that would see it is dropped. For a version v and a range
// tombstone R > v that is the case if no snapshot lies in [v, R).
type Retain struct {
	rules  Rules
	covers *rangedel.List
	cursor rangedel.Cursor // over covers, as the last snapshot sees them

	key []byte
	// versions is the number of versions to keep in the keyspace of the last key.
	versions int
	spaces   keyspace.Walk
	space    uint32
	// cover is the newest range tombstone over key that the last snapshot sees.
	cover base.SeqNum
	// stripe is the index of the oldest snapshot that sees the last judged version.
	// Older versions in the same stripe are hidden from it and all later snapshots.
	stripe int
	// spare is the number of further versions to keep because of Rules.Versions.
	spare int
	// newest says that no version of the key has been judged yet.
	newest bool
}

// NewRetain returns a Retain without a key. covers are the range tombstones of all inputs.
func NewRetain(rules Rules, covers *rangedel.List) Retain {
	invariant.Check(len(rules.Snapshots) > 0, "Rules have no snapshot")
	invariant.Check(rules.Versions >= 1, "keeping %d versions", rules.Versions)
	if invariant.Enabled {
		for i := 1; i < len(rules.Snapshots); i++ {
			invariant.Check(rules.Snapshots[i-1] < rules.Snapshots[i], "snapshots out of order: %v", rules.Snapshots)
		}
	}
	r := Retain{rules: rules, covers: covers, versions: rules.Versions}
	if rules.VersionsOf != nil {
		r.versions = rules.VersionsOf(0)
	}
	r.cursor.Init(false)
	r.cursor.Add(covers, rules.Snapshots[len(rules.Snapshots)-1], 0)
	return r
}

// Begin starts a key. The caller must not change it until its last version has been judged.
func (r *Retain) Begin(key []byte) {
	if n := r.spaces.Number(key); n != r.space && r.rules.VersionsOf != nil {
		r.space, r.versions = n, r.rules.VersionsOf(n)
	}
	r.key, r.stripe, r.spare, r.newest = key, len(r.rules.Snapshots), r.versions, true
	if !r.cursor.Empty() {
		r.cover, _ = r.cursor.At(key)
	}
}

// Judge returns the verdict on the key's next version, if it is a whole entry.
func (r *Retain) Judge(seq base.SeqNum, m *base.Meta) Verdict {
	return r.judge(seq, m.Kind.HasValue(), r.gone(m))
}

// Link returns the verdict on the key's next version, if it is partial. A version that is
// dropped in a chain of partial entries is a part of the next newer one.
func (r *Retain) Link(seq base.SeqNum) Verdict { return r.judge(seq, false, false) }

// gone reports whether the key's next version counts as a tombstone.
func (r *Retain) gone(m *base.Meta) bool {
	if m.Live(r.rules.NowMs) || m.Kind.HasValue() && mutant.On(mutant.KeepExpired) {
		return false
	}
	return !r.newest || !m.Kind.HasValue() || !r.needed()
}

// needed reports whether a newer partial entry elsewhere may need the newest version.
func (r *Retain) needed() bool {
	return r.rules.Above != nil && !mutant.On(mutant.DropNeededBase) && r.rules.Above(r.key)
}

func (r *Retain) judge(seq base.SeqNum, hasValue, deleted bool) Verdict {
	stripe := r.stripeOf(seq)
	newest := stripe < r.stripe
	r.stripe, r.newest = stripe, false
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
	if deleted && hasValue {
		return KeepTombstone
	}
	return Keep
}

// splits reports whether a range tombstone lies between two neighbouring versions of the
// key. Then the older version is no base of the newer one.
func (r *Retain) splits(newer, older base.SeqNum) bool {
	return r.covers.Len() > 0 && r.covers.Cover(r.key, newer) > older
}

// seenByAll reports whether all snapshots see a version.
func (r *Retain) seenByAll(seq base.SeqNum) bool { return seq <= r.rules.Snapshots[0] }

// current reports whether a version is a live value that only the last snapshot sees, and the
// newest version of the key, so that a filter may change it.
func (r *Retain) current(seq base.SeqNum, m *base.Meta) bool {
	last := len(r.rules.Snapshots) - 1
	s := r.rules.Snapshots
	return r.newest && m.Live(r.rules.NowMs) && r.cover <= seq &&
		seq <= s[last] && (last == 0 || seq > s[last-1]) && !r.needed()
}

// stripeOf returns the index of the oldest snapshot that sees seq, or the number of
// snapshots. Versions come newest first, so the result never rises within a key.
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

// covered reports whether a range tombstone hides the version from every snapshot that would
// see it. The caller knows that one hides it from the last snapshot, which ends the counting
// of versions.
func (r *Retain) covered(seq base.SeqNum, stripe int) bool {
	r.spare = 0
	return r.covers.Cover(r.key, r.rules.Snapshots[stripe]) > seq
}
