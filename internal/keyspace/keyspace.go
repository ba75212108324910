package keyspace

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// Escape is the first byte of every stored key with a prefix.
	Escape = 0xff
	// escapedDefault is the second byte of keys of the default keyspace that begin
	// with Escape.
	escapedDefault = 0
	// shortMax is the greatest number that takes one byte.
	shortMax = 240
	// longMark is the second byte of prefixes that hold the number in 4 bytes.
	longMark = shortMax + 1

	shortSize = 2             // length of a short prefix in bytes
	longSize  = shortSize + 4 // length of a long prefix in bytes
)

// A Space translates the keys of one keyspace. The zero Space is the default
// keyspace. Spaces are comparable.
type Space struct {
	prefix [longSize]byte
	size   uint8 // length of the prefix in bytes; 0 in the default keyspace
}

// New returns the space of the keyspace with a number. Number 0 is the default
// keyspace.
func New(number uint32) (s Space) {
	switch {
	case number == 0:
	case number <= shortMax:
		s.prefix[0], s.prefix[1], s.size = Escape, byte(number), shortSize
	default:
		s.prefix[0], s.prefix[1], s.size = Escape, longMark, longSize
		binary.BigEndian.PutUint32(s.prefix[2:], number)
	}
	return s
}

// Number returns the number of the keyspace.
func (s *Space) Number() uint32 {
	switch s.size {
	case 0:
		return 0
	case shortSize:
		return uint32(s.prefix[1])
	}
	return binary.BigEndian.Uint32(s.prefix[2:])
}

// Plain reports whether the stored form of key is key itself.
func (s *Space) Plain(key []byte) bool {
	return s.size == 0 && (len(key) == 0 || key[0] != Escape)
}

// Append appends the stored form of key to dst. The stored form of an empty key is
// the lower bound of the keyspace.
func (s *Space) Append(dst, key []byte) []byte {
	switch {
	case s.size > 0:
		dst = append(dst, s.prefix[:s.size]...)
	case !s.Plain(key) && !mutant.On(mutant.KeyspaceNoEscape):
		dst = append(dst, Escape, escapedDefault)
	}
	return append(dst, key...)
}

// Skip returns the length in bytes of what precedes the user's key in a stored key
// of the keyspace.
func (s *Space) Skip(stored []byte) int {
	if s.size == 0 && len(stored) > 0 && stored[0] == Escape {
		return shortSize
	}
	return int(s.size)
}

// AppendEnd appends the first stored key after all keys of the keyspace to dst.
func (s *Space) AppendEnd(dst []byte) []byte {
	if s.size == 0 {
		return append(dst, Escape, escapedDefault+1)
	}
	n := len(dst)
	dst = append(dst, s.prefix[:s.size]...)
	i := len(dst) - 1
	for ; dst[i] == 0xff && i > n; i-- {
	}
	dst[i]++ // the second byte of a prefix is below 0xff
	return dst[:i+1]
}

// Bounds returns the range of the stored keys of the keyspace, from lo, inclusive,
// to hi, exclusive. lo of the default keyspace is nil.
func (s *Space) Bounds() (lo, hi []byte) {
	if s.size > 0 {
		lo = s.Append(nil, nil)
	}
	return lo, s.AppendEnd(nil)
}

// Bounds returns the range of the stored keys of the keyspace with a number.
func Bounds(number uint32) (lo, hi []byte) {
	s := New(number)
	return s.Bounds()
}

// NumberOf returns the number of the keyspace of a stored key, and ErrCorrupt if
// no keyspace has such keys.
func NumberOf(stored []byte) (uint32, error) {
	if len(stored) > 0 && stored[0] != Escape {
		return 0, nil
	}
	n := len(stored)
	switch {
	case n > shortSize && stored[1] == escapedDefault && stored[shortSize] == Escape:
		return 0, nil
	case n > shortSize && stored[1] != escapedDefault && stored[1] <= shortMax:
		return uint32(stored[1]), nil
	case n > longSize && stored[1] == longMark && binary.BigEndian.Uint32(stored[2:]) > shortMax:
		return binary.BigEndian.Uint32(stored[2:]), nil
	}
	return 0, fmt.Errorf("%w: a stored key is %.20q, which no keyspace has", base.ErrCorrupt, stored)
}

// Decode splits a stored key into the number of its keyspace and the user's key,
// which is a slice of stored. It returns ErrCorrupt if no keyspace has such keys.
func Decode(stored []byte) (number uint32, key []byte, err error) {
	if number, err = NumberOf(stored); err != nil {
		return 0, nil, err
	}
	s := New(number)
	return number, stored[s.Skip(stored):], nil
}

// A Walk tells the keyspaces of stored keys that ascend. It decodes a key only when
// the prefix changes.
type Walk struct {
	number uint32
	size   uint8
	prefix [longSize]byte
}

// Number returns the number of the keyspace of stored. Bytes that no keyspace has
// count as keys of the default keyspace.
func (w *Walk) Number(stored []byte) uint32 {
	if len(stored) == 0 || stored[0] != Escape {
		return 0
	}
	if w.size > 0 && bytes.HasPrefix(stored, w.prefix[:w.size]) {
		return w.number
	}
	number, err := NumberOf(stored)
	if err != nil {
		number = 0
	}
	s := New(number)
	w.number, w.prefix, w.size = number, s.prefix, s.size
	return number
}
