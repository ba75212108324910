package table

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// Newest reports whether the table has a key with this hash (base.Hash with the
// seed of the database) that has a version newer than since. Transactions that
// remember their reads as hashes call it, so it compares only the 64-bit hash. It
// ignores range tombstones.
func (r *Reader) Newest(hash uint64, since base.SeqNum) (bool, error) {
	if r.props.LargestSeq <= since {
		return false, nil
	}
	x := &r.shape
	slot, tag := x.home(hash)
	for range x.slots {
		page := int(slot >> x.pageShift())
		if !r.pagesOK.has(page) {
			if err := r.verifyPage(page, true); err != nil {
				return false, err
			}
		}
		s := x.load(r.index, slot)
		if s == 0 {
			return false, nil
		}
		if s>>(x.posBits&63) == tag {
			newer, done, err := r.tryNewer(s&(1<<(x.posBits&63)-1), hash, since)
			if done || err != nil {
				return newer, err
			}
		}
		if slot++; slot == x.slots {
			slot = 0
		}
	}
	return false, nil
}

// tryNewer checks the entry that a slot with a matching tag points to. done says
// that its key has the hash and a newer version. Keys of one database do not share
// all 64 bits. If two did, the transaction could not tell them apart either.
func (r *Reader) tryNewer(pos, hash uint64, since base.SeqNum) (newer, done bool, err error) {
	b, i, err := r.place(pos)
	if err != nil {
		return false, false, err
	}
	v, err := r.view(b)
	if err != nil {
		return false, false, err
	}
	if i >= v.count {
		return false, false, r.inFile(base.Corrupt(r.hashOff(), "entry in the hash index", i, fmt.Sprintf("below %d", v.count)))
	}
	// The index points to the newest version. Most are old and need no hash.
	if v.seq(i) <= since {
		return false, false, nil
	}
	var buf [128]byte
	found := base.Hash(v.appendKey(buf[:0], i), r.hashSeed) == hash
	return found, found, nil
}

// RangeNewer reports whether a key of [lo, hi) has a version newer than since. A
// nil lo is the first key; a nil hi means no end. It skips the entries of blocks
// whose sequence numbers are all older or all newer. It ignores range tombstones.
//
// If includes is not nil, RangeNewer asks it for the key of each newer version. It
// ignores the version if the answer is false.
func (r *Reader) RangeNewer(lo, hi []byte, since base.SeqNum, includes func(key []byte) bool) (bool, error) {
	if r.props.LargestSeq <= since || r.blocks == 0 {
		return false, nil
	}
	var from, at int
	var err error
	if lo != nil {
		if from, at, err = r.seek(lo, base.SeqNumMax); err != nil {
			return false, err
		}
	}
	to, end := int(r.blocks), 0
	if hi != nil {
		if to, end, err = r.seek(hi, base.SeqNumMax); err != nil {
			return false, err
		}
	}
	for b := from; b < to || b == to && at < end; b++ {
		v, err := r.view(b)
		if err != nil {
			return false, err
		}
		n := v.count
		if b == to {
			n = end
		}
		if v.anyNewer(at, n, since) && (includes == nil || v.anyNewerOf(at, n, since, includes)) {
			return true, nil
		}
		at = 0
	}
	return false, nil
}

// anyNewer reports whether an entry in [from, end) is newer than since.
func (v *view) anyNewer(from, end int, since base.SeqNum) bool {
	least := v.seqLeast()
	if from >= end || v.seqs < width8 && least+1<<(8*v.seqs.bytes())-1 <= uint64(since) {
		return false
	}
	if least > uint64(since) {
		return true
	}
	for i := from; i < end; i++ {
		if v.seq(i) > since {
			return true
		}
	}
	return false
}

// anyNewerOf reports whether an entry in [from, end) is newer than since and has a
// key that includes knows.
func (v *view) anyNewerOf(from, end int, since base.SeqNum, includes func(key []byte) bool) bool {
	var key []byte
	for i := from; i < end; i++ {
		if v.seq(i) <= since {
			continue
		}
		if key = v.appendKey(key[:0], i); includes(key) {
			return true
		}
	}
	return false
}
