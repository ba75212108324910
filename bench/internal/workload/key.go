package workload

import (
	"bytes"
	"fmt"
)

// KeySize is the length of every key.
const KeySize = 22

// keyPrefixSize is the part of a key before its number.
const keyPrefixSize = len("vsz=00000-k=")

// Keys makes and reads the keys of one population: the text
// "vsz=%05d-k=%010d" with the size of its values and the key's number.
type Keys struct{ prefix [keyPrefixSize]byte }

// NewKeys returns the keys for values of that many bytes.
func NewKeys(valueSize int) Keys {
	var k Keys
	copy(k.prefix[:], fmt.Sprintf("vsz=%05d-k=", valueSize))
	return k
}

// A Key is the text of one key in a buffer that Keys.Put writes.
type Key [KeySize]byte

// Put writes the key of number n. It is on the path of every measured read,
// so it divides by constants and allocates nothing.
func (k *Keys) Put(dst *Key, n uint64) {
	copy(dst[:], k.prefix[:])
	for i := KeySize - 1; i >= keyPrefixSize; i-- {
		q := n / 10
		dst[i] = byte('0' + n - q*10)
		n = q
	}
}

// Number returns the number of a key, and false if it is not a key of this
// population.
func (k *Keys) Number(key []byte) (uint64, bool) {
	if len(key) != KeySize || !bytes.Equal(key[:keyPrefixSize], k.prefix[:]) {
		return 0, false
	}
	var n uint64
	for _, c := range key[keyPrefixSize:] {
		d := uint64(c - '0')
		if d > 9 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
