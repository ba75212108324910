package memtable

import (
	"math/bits"
	"unsafe"

	"github.com/stoatdb/stoat/internal/base"
)

// links lead from an entry to older versions of its key: next to the next older
// one, jump to a much older one. Jumps follow the skew-binary number system: a
// jump spans either one version, or the two equal jumps before it and one more.
// So any version is reached in a logarithmic number of steps. depth is the
// number of older versions.
//
//	depth  0  1  2  3  4  5  6  7
//	jump   -  0  1  0  3  4  3  0
type links struct {
	next, jump Ref
	depth      uint32
}

// links returns the links of e. They are zero for a first version.
func (e entry) links(w uint64) links {
	if w&hasOlder == 0 {
		return links{}
	}
	p := (*[3]uint32)(unsafe.Add(e.p, wordLinksOffset(w)))
	return links{Ref(p[0]), Ref(p[1]), p[2]}
}

func (e entry) setLinks(w uint64, l links) {
	p := (*[3]uint32)(unsafe.Add(e.p, wordLinksOffset(w)))
	p[0], p[1], p[2] = uint32(l.next), uint32(l.jump), l.depth
}

// linksTo returns the links of an entry that follows the version old.
func (a *arena) linksTo(old Ref) links {
	o := a.at(old)
	ol := o.links(o.word())
	l := links{next: old, jump: old, depth: ol.depth + 1}
	if jumpSpan(l.depth) > 1 {
		j := a.at(ol.jump)
		l.jump = j.links(j.word()).jump
	}
	return l
}

// jumpSpan returns how many versions the jump of an entry with depth older
// versions spans. This is the lowest digit of depth in the skew-binary system,
// whose digits weigh 1, 3, 7, 15 and so on.
func jumpSpan(depth uint32) uint32 {
	span := uint32(0)
	for depth > 0 {
		span = 1<<(bits.Len32(depth+1)-1) - 1
		depth -= span
	}
	return span
}

// visibleAt returns the newest version with a sequence number of at most at, and
// its word. The search begins with e. The p of the result is nil if there is
// none.
func (t *Table) visibleAt(e entry, at base.SeqNum) (entry, uint64) {
	w := e.word()
	for t.seq(e, w) > at {
		l := e.links(w)
		if l.next == 0 {
			return entry{}, 0
		}
		if j := t.arena.at(l.jump); t.seq(j, j.word()) > at {
			e = j
		} else {
			e = t.arena.at(l.next)
		}
		w = e.word()
	}
	return e, w
}
