package state

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// Versions calls visit for the versions of key with a sequence number of at most at, the
// newest first, until visit returns false. Deletions of the key are versions. Versions
// that a range tombstone up to at hides are left out. hash is base.Hash of the key with
// the seed of the database. Values are borrowed as long as the view is held; compressed
// ones are decoded into the arena.
func (v *View) Versions(key []byte, hash uint64, at base.SeqNum, arena *codec.Arena, visit func(value []byte, m base.Meta, seq base.SeqNum) bool) error {
	cover, more := base.SeqNum(0), true
	for _, t := range v.Memtables {
		if t.HasDeletions() {
			cover = max(cover, t.Cover(key, at))
		}
		t.Versions(key, hash, at, func(value []byte, m base.Meta, seq base.SeqNum) bool {
			more = seq >= cover && visit(value, m, seq)
			return more
		})
		if !more || cover != 0 {
			return nil // a range tombstone hides all that is older
		}
	}
	return v.Tree.Versions(key, hash, at, cover, arena, visit)
}
