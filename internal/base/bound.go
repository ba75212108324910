package base

import (
	"bytes"
	"fmt"
)

// EndOfKeys is the upper bound of a range without end. It is the exclusive end of a range
// tombstone, or of a table whose last keys such a tombstone covers. It is one byte longer
// than any key and all 0xff, so it compares after every key and needs no special case.
//
// All users share this one slice. Never copy it and never write it out.
// Memtables and files store an empty bound in its place; no key is empty.
var EndOfKeys = bytes.Repeat([]byte{0xff}, MaxKeySize+1)

// StoredBound returns the stored form of the end of a range: nil for EndOfKeys,
// end itself otherwise.
func StoredBound(end []byte) []byte {
	if bytes.Equal(end, EndOfKeys) {
		return nil
	}
	return end
}

// LoadedBound is the inverse of StoredBound.
func LoadedBound(stored []byte) []byte {
	if len(stored) == 0 {
		return EndOfKeys
	}
	return stored
}

// CloneBound returns a copy of the end of a range. For EndOfKeys it returns
// EndOfKeys itself.
func CloneBound(end []byte) []byte {
	if bytes.Equal(end, EndOfKeys) {
		return EndOfKeys
	}
	return bytes.Clone(end)
}

// PrefixEnd turns a prefix, in place, into the first key after all keys that start with it.
// It returns nil if there is no such key.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i]++; prefix[i] != 0 {
			return prefix[:i+1]
		}
	}
	return nil
}

// WithPrefix restricts bounds to the keys that start with prefix; nil is no bound. It writes
// the end of the prefix to buf if there is room.
func WithPrefix(lower, upper, prefix, buf []byte) (lo, hi []byte) {
	if len(prefix) == 0 {
		return lower, upper
	}
	if bytes.Compare(prefix, lower) > 0 {
		lower = prefix
	}
	if end := PrefixEnd(append(buf[:0], prefix...)); end != nil && (upper == nil || bytes.Compare(end, upper) < 0) {
		upper = end
	}
	return lower, upper
}

// BoundString formats the beginning of a bound for error messages.
func BoundString(bound []byte) string {
	if bytes.Equal(bound, EndOfKeys) {
		return "the end of all keys"
	}
	return fmt.Sprintf("%.80q", bound)
}

// FirstKey is the smallest key that there can be. The caller must not change it.
var FirstKey = []byte{0}
