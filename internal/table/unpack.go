package table

import (
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/mutant"
)

// An unpacker rebuilds entries of blocks. It owns the memory of their keys.
type unpacker struct {
	keys []byte // keys of the last Fill
	// ends are the ends of values, and seqs the sequence numbers, less the least one.
	ends, seqs [iter.BatchSize]uint64
}

// unpack puts n entries of the block of v, starting with entry at, into the batch at index i.
// values are the values of the block.
func (u *unpacker) unpack(v *view, values []byte, b *iter.Batch, i, at, n int) {
	dst := b.Entries[i : i+n]
	differ := u.unpackKeys(v, dst, at)
	u.unpackValues(v, values, dst, at)
	live := u.unpackMetas(v, dst, at)
	differ = differ || mutant.On(mutant.PlainVersions)
	live = live || mutant.On(mutant.PlainExpiring)
	switch {
	case i == 0:
		b.Plain = differ && live
	case b.Plain:
		b.Plain = differ && live && string(b.Entries[i-1].Key) != string(b.Entries[i].Key)
	}
}

// unpackKeys rebuilds keys. It reports true if it knows that neighbours differ.
func (u *unpacker) unpackKeys(v *view, dst []base.Entry, at int) (differ bool) {
	start := len(u.keys)
	if v.kEnds != width0 {
		for i := range dst {
			from := len(u.keys)
			u.keys = v.appendKey(u.keys, at+i)
			dst[i].Key = u.keys[from:len(u.keys):len(u.keys)]
		}
		return false
	}
	size := int(v.prefixLen) + int(v.suffixLen)
	u.keys = grow(u.keys, size*len(dst)+keySlack)
	keys := u.keys[start:]
	u.keys = u.keys[:start+size*len(dst)]
	if v.suffixLen > 0 && v.suffixLen <= 8 && v.prefixLen <= shortPrefix {
		differ = v.joinShort(keys, at, len(dst))
	} else {
		v.join(keys, at, len(dst))
	}
	for i := range dst {
		dst[i].Key = keys[i*size : (i+1)*size : (i+1)*size]
	}
	return differ
}

// unpackValues sets values and sequence numbers.
func (u *unpacker) unpackValues(v *view, values []byte, dst []base.Entry, at int) {
	least, seqs := v.seqLeast(), u.seqs[:len(dst)]
	v.seqs.loadAll(seqs, v.part, v.oSeqs, at)
	if v.vEnds == width0 {
		n := int(v.valueLen)
		values = values[at*n:]
		for i := range dst {
			dst[i].Value = values[i*n : (i+1)*n : (i+1)*n]
			dst[i].Seq = base.SeqNum(least + seqs[i])
		}
		return
	}
	from, _ := v.valueSpan(at)
	ends := u.ends[:len(dst)]
	v.vEnds.loadAll(ends, v.part, v.oVEnds, at)
	for i := range dst {
		to := int(ends[i])
		dst[i].Value = values[from:to:to]
		dst[i].Seq = base.SeqNum(least + seqs[i])
		from = to
	}
}

// unpackMetas sets metadata. It reports true if it knows that all entries have a value that
// does not expire.
func (u *unpacker) unpackMetas(v *view, dst []base.Entry, at int) (live bool) {
	m := base.Meta{Kind: base.Kind(v.flags & flagKind)} // without a kind, if entries differ in it
	live = !v.hasExpiries && m.Kind.HasValue()
	if v.hasFlags || v.hasExpiries || v.hasUsers {
		for i := range dst {
			dst[i].Meta = v.meta(at + i)
		}
		return live
	}
	for i := range dst {
		dst[i].Meta = m
	}
	return live
}

// grow lengthens b by n bytes with undefined contents. If it reallocates, the old
// array stays unchanged, because keys refer to it.
func grow(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b[:len(b)+n]
	}
	bigger := make([]byte, len(b)+n, 2*(len(b)+n))
	copy(bigger, b)
	return bigger
}

const (
	// shortPrefix is the greatest length of a prefix that joinShort takes.
	shortPrefix = 32
	// keySlack is how many bytes joinShort may write behind the last key.
	keySlack = shortPrefix + 8
)

// join writes n keys with suffixes of one length, from entry at on, one behind the other
// into buf.
func (v *view) join(buf []byte, at, n int) {
	prefix, s := v.prefix(), int(v.suffixLen)
	suffixes := v.part[v.oSuffixes+at*s : v.oSuffixes+(at+n)*s]
	for ; n > 0; n-- {
		copy(buf, prefix)
		copy(buf[len(prefix):], suffixes[:s])
		buf, suffixes = buf[len(prefix)+s:], suffixes[s:]
	}
}

// joinShort is join for a short prefix, and for suffixes of 1 to 8 bytes. It reports
// whether the keys of neighbours differ. It writes whole words: each key together with the
// bytes behind it, which the next key overwrites.
func (v *view) joinShort(buf []byte, at, n int) (differ bool) {
	var prefix [shortPrefix]byte
	p := copy(prefix[:], v.prefix())
	s := int(v.suffixLen)
	shift := uint(64-8*s) & 63
	// The last byte of a suffix is the last one of the word that is loaded. A key part has
	// at least one word before its suffixes.
	words := v.part[v.oSuffixes+(at+1)*s-8 : v.oSuffixes+(at+n)*s]
	le := binary.LittleEndian
	before := le.Uint64(words)>>shift + 1
	differ = true
	for from := 0; from+8 <= len(words); from += s {
		suffix := le.Uint64(words[from:from+8]) >> shift
		*(*[shortPrefix]byte)(buf) = prefix
		le.PutUint64(buf[p:], suffix)
		if suffix == before {
			differ = false
		}
		before = suffix
		buf = buf[p+s:]
	}
	return differ
}
