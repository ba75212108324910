package base

import (
	"bytes"
	"fmt"
)

// EndOfKeys is the bound of a range that has no end: where a range deletion
// ends, exclusive, or a table whose last keys such a deletion covers. It is a
// byte longer than any key, so that it compares as coming after all of them and
// needs no special case where bounds are compared or cut.
//
// Every bound of this kind is this one slice: nobody copies it, and nobody
// writes it out. Where bounds are stored, in memtables and in files, a bound of
// no bytes stands for it, which no key can be.
var EndOfKeys = bytes.Repeat([]byte{0xff}, MaxKeySize+1)

// StoredBound returns what is stored for the end of a range: nothing for
// EndOfKeys.
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

// CloneBound returns a copy of the end of a range, but EndOfKeys itself.
func CloneBound(end []byte) []byte {
	if bytes.Equal(end, EndOfKeys) {
		return EndOfKeys
	}
	return bytes.Clone(end)
}

// BoundString returns a bound for error messages, of which it shows the
// beginning.
func BoundString(bound []byte) string {
	if bytes.Equal(bound, EndOfKeys) {
		return "the end of all keys"
	}
	return fmt.Sprintf("%.80q", bound)
}

// FirstKey is the smallest key that there can be. The caller must not change it.
var FirstKey = []byte{0}
