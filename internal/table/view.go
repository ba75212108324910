package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
)

// A view reads the key part of one block. The part is:
//
//	size                field
//	8                   least sequence number
//	8, if present       least expiry
//	prefixLen           the prefix that all keys share
//	count × kEnds       ends of suffixes, from the first suffix on
//	count × vEnds       ends of values, from the start of the value part
//	count × seqs        sequence numbers, less the least one
//	count, if present   flags: kind in bits 0-3, bit 4 for an expiry
//	count × expiries    expiries, less the least one
//	count, if present   user bytes
//	the rest            suffixes
//
// A view holds offsets, not slices, because a point read uses few of them.
type view struct {
	part []byte
	blockEntry
	shift base.SeqNum // added to stored sequence numbers

	oPrefix, oKEnds, oVEnds, oSeqs, oFlags, oExpiries, oUsers, oSuffixes int
}

const (
	flagKind    = 0x0f
	flagExpires = 0x10
)

// storable reports whether an entry of kind k may be in a block. Range tombstones
// have their own section.
func storable(k base.Kind) bool { return k.Known() && k != base.KindDeleteRange }

// makeView computes the offsets. They are within part if view.check accepts it. shift is
// added to the stored sequence numbers.
func makeView(e blockEntry, part []byte, shift base.SeqNum) view {
	v := view{part: part, blockEntry: e, shift: shift}
	v.lay()
	return v
}

// lay computes the offsets from the directory entry.
func (v *view) lay() {
	v.oPrefix = 8
	if v.hasExpiries {
		v.oPrefix = 16
	}
	v.oKEnds = v.oPrefix + int(v.prefixLen)
	v.oVEnds = v.oKEnds + v.count*v.kEnds.bytes()
	v.oSeqs = v.oVEnds + v.count*v.vEnds.bytes()
	v.oFlags = v.oSeqs + v.count*v.seqs.bytes()
	v.oExpiries = v.oFlags
	if v.hasFlags {
		v.oExpiries += v.count
	}
	v.oUsers = v.oExpiries + v.count*v.expiries.bytes()
	v.oSuffixes = v.oUsers
	if v.hasUsers {
		v.oSuffixes += v.count
	}
}

func (v *view) prefix() []byte { return v.part[v.oPrefix:v.oKEnds] }

// span returns the place of item i. With width0, every item has length each;
// otherwise the column at off holds the ends.
func (v *view) span(w width, off, i int, each uint64) (from, to uint64) {
	if w == width0 {
		from = uint64(i) * each
		return from, from + each
	}
	if i > 0 {
		from = w.load(v.part, off, i-1)
	}
	return from, w.load(v.part, off, i)
}

func (v *view) suffix(i int) []byte {
	from, to := v.span(v.kEnds, v.oKEnds, i, uint64(v.suffixLen))
	return v.part[v.oSuffixes+int(from) : v.oSuffixes+int(to)]
}

// valueSpan returns the place of value i in the block's values.
func (v *view) valueSpan(i int) (from, to int) {
	f, t := v.span(v.vEnds, v.oVEnds, i, uint64(v.valueLen))
	return int(f), int(t)
}

// storedLeast returns the least sequence number as the file stores it.
func (v *view) storedLeast() uint64 { return binary.LittleEndian.Uint64(v.part) }

func (v *view) seqLeast() uint64 { return v.storedLeast() + uint64(v.shift) }

func (v *view) seq(i int) base.SeqNum {
	return base.SeqNum(v.seqLeast() + v.seqs.load(v.part, v.oSeqs, i))
}

func (v *view) flagsOf(i int) uint8 {
	if v.hasFlags {
		return v.part[v.oFlags+i]
	}
	return v.flags
}

func (v *view) meta(i int) base.Meta {
	f := v.flagsOf(i)
	m := base.Meta{Kind: base.Kind(f & flagKind)}
	if f&flagExpires != 0 {
		m.ExpiresAt = binary.LittleEndian.Uint64(v.part[8:]) + v.expiries.load(v.part, v.oExpiries, i)
	}
	if v.hasUsers {
		m.User = v.part[v.oUsers+i]
	}
	return m
}

// is reports whether key is the i-th key.
func (v *view) is(key []byte, i int) bool {
	p := int(v.prefixLen)
	if len(key) < p {
		return false
	}
	return string(key[p:]) == string(v.suffix(i)) && string(key[:p]) == string(v.prefix())
}

// same reports whether entries i and j have the same key.
func (v *view) same(i, j int) bool { return string(v.suffix(i)) == string(v.suffix(j)) }

// before reports whether entry i is before (key, seq) in the order of the table:
// keys ascending, sequence numbers descending.
func (v *view) before(i int, key []byte, seq base.SeqNum) bool {
	p := min(int(v.prefixLen), len(key))
	if c := bytes.Compare(v.prefix(), key[:p]); c != 0 {
		return c < 0
	}
	return v.suffixBefore(i, key[p:], seq)
}

// suffixBefore is before for a key that starts with the prefix; rest is the rest of
// the key.
func (v *view) suffixBefore(i int, rest []byte, seq base.SeqNum) bool {
	c := bytes.Compare(v.suffix(i), rest)
	return c < 0 || c == 0 && v.seq(i) > seq
}

// search returns the first entry that is not before (key, seq), or the count.
func (v *view) search(key []byte, seq base.SeqNum) int {
	p := min(int(v.prefixLen), len(key))
	if c := bytes.Compare(v.prefix(), key[:p]); c != 0 {
		if c < 0 {
			return v.count
		}
		return 0
	}
	rest := key[p:]
	if v.kEnds == width0 && v.suffixLen <= 8 {
		return v.searchShort(rest, seq)
	}
	from, to := 0, v.count
	for from < to {
		mid := int(uint(from+to) / 2)
		if v.suffixBefore(mid, rest, seq) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// searchShort is search for suffixes of one length of at most 8 bytes, and a key
// that starts with the prefix. It compares numbers without branches that depend on
// them, because the processor could not predict those.
func (v *view) searchShort(rest []byte, seq base.SeqNum) int {
	n := int(v.suffixLen)
	want := base.Head(rest[:min(n, len(rest))]) >> (64 - 8*uint(n))
	from, count := 0, v.count
	for count > 0 {
		half := (count + 1) / 2
		_, less := bits.Sub64(v.shortSuffix(from+half-1), want, 0)
		from += half & -int(less)
		count -= half
	}
	// Entries that are equal so far come before a longer key, and after a shorter
	// one.
	for len(rest) >= n && from < v.count && v.shortSuffix(from) == want && (len(rest) > n || v.seq(from) > seq) {
		from++
	}
	return from
}

// shortSuffix returns suffix i as a number. It loads the word that ends with the
// suffix: a key part has at least one word before its suffixes.
func (v *view) shortSuffix(i int) uint64 {
	n := int(v.suffixLen)
	end := v.oSuffixes + (i+1)*n
	word := binary.BigEndian.Uint64(v.part[end-8 : end])
	return word & (1<<(8*uint(n)) - 1)
}

// head returns the first 8 bytes of the first key after the first skip bytes, as a
// number.
func (v *view) head(skip int) uint64 {
	var b [8]byte
	n := 0
	if p := v.prefix(); skip < len(p) {
		n = copy(b[:], p[skip:])
		skip = 0
	} else {
		skip -= len(p)
	}
	if s := v.suffix(0); n < 8 && skip < len(s) {
		copy(b[n:], s[skip:])
	}
	return binary.BigEndian.Uint64(b[:])
}

// appendKey appends the i-th key to dst.
func (v *view) appendKey(dst []byte, i int) []byte {
	return append(append(dst, v.prefix()...), v.suffix(i)...)
}

// check reports why the key part is invalid. The other methods rely on it and check
// nothing. It does not check the order of entries; only Verify does: a wrong order
// causes wrong answers, not a fault.
func (v *view) check() error {
	suffixes := len(v.part) - v.oSuffixes
	if suffixes < 0 {
		return base.Corrupt(v.keyOff, "length of a key part", len(v.part), fmt.Sprintf("at least %d", v.oSuffixes))
	}
	if err := v.checkEnds(suffixes); err != nil {
		return err
	}
	if err := v.checkSeqs(); err != nil {
		return err
	}
	n := v.count
	if !v.hasFlags {
		n = 1 // one for all
	}
	for i := range n {
		f := v.flagsOf(i)
		if k := base.Kind(f & flagKind); !storable(k) {
			return base.Corrupt(v.keyOff, "kind of an entry", uint8(k), "a known kind")
		}
		if f&^(flagKind|flagExpires) != 0 || f&flagExpires != 0 && !v.hasExpiries {
			return base.Corrupt(v.keyOff, "flags of an entry", f, "known flags")
		}
	}
	return nil
}

func (v *view) checkSeqs() error {
	most, least := uint64(base.SeqNumMax-v.shift), v.storedLeast()
	if least > most {
		return base.Corrupt(v.keyOff, "least sequence number", least, most)
	}
	if v.seqs <= width4 && most > 1<<32 && least <= most-1<<32 {
		return nil // numbers of so few bytes stay within the limit
	}
	for i := range v.count {
		if s := v.seqs.load(v.part, v.oSeqs, i); s > most-least {
			return base.Corrupt(v.keyOff, "sequence number", fmt.Sprintf("%d+%d", least, s), most)
		}
	}
	return nil
}

// checkEnds checks the columns of ends and the lengths of keys.
func (v *view) checkEnds(suffixes int) error {
	if v.kEnds == width0 && v.count*int(v.suffixLen) != suffixes {
		return base.Corrupt(v.keyOff, "length of suffixes", suffixes, v.count*int(v.suffixLen))
	}
	n := v.count
	if v.kEnds == width0 && v.vEnds == width0 {
		n = 1 // the others have the same lengths; rawLen is their sum by definition
	}
	var kTo, vTo uint64
	for i := range n {
		from, to := v.span(v.kEnds, v.oKEnds, i, uint64(v.suffixLen))
		if from != kTo || to < from || to > uint64(suffixes) {
			return base.Corrupt(v.keyOff, "end of a suffix", to, fmt.Sprintf("%d to %d", kTo, suffixes))
		}
		if n := uint64(v.prefixLen) + to - from; n == 0 || n > base.MaxKeySize {
			return base.Corrupt(v.keyOff, "length of a key", n, fmt.Sprintf("1 to %d", base.MaxKeySize))
		}
		kTo = to
		if from, to = v.span(v.vEnds, v.oVEnds, i, uint64(v.valueLen)); from != vTo || to < from {
			return base.Corrupt(v.keyOff, "end of a value", to, fmt.Sprintf("at least %d", vTo))
		}
		vTo = to
	}
	if n < v.count {
		return nil
	}
	if kTo != uint64(suffixes) {
		return base.Corrupt(v.keyOff, "end of the last suffix", kTo, suffixes)
	}
	if vTo != uint64(v.rawLen()) {
		return base.Corrupt(v.keyOff, "end of the last value", vTo, v.rawLen())
	}
	return nil
}

// points reports whether the block has an entry of base.KindPointer.
func (v *view) points() bool {
	const pointer = byte(base.KindPointer)
	if !v.hasFlags {
		return v.flags&flagKind == pointer
	}
	flags := v.part[v.oFlags:v.oExpiries] // only the bits that view.check accepts
	return bytes.IndexByte(flags, pointer) >= 0 || bytes.IndexByte(flags, pointer|flagExpires) >= 0
}
