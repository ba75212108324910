package workload

import (
	"encoding/binary"
	"fmt"
)

// KeySize is the length of every key.
const KeySize = 22

// keyPrefixSize is the length in bytes of the part before a key's number.
const keyPrefixSize = len("vsz=00000-k=")

// Keys formats and parses the keys of one population. A key is the text
// "vsz=%05d-k=%010d" with the size of the values and the key's number.
type Keys struct{ prefix [keyPrefixSize]byte }

// NewKeys returns the keys for values of valueSize bytes.
func NewKeys(valueSize int) Keys {
	var k Keys
	copy(k.prefix[:], fmt.Sprintf("vsz=%05d-k=", valueSize))
	return k
}

// A Key is a buffer for the text of one key.
type Key [KeySize]byte

// Put writes the key of number n. Every measured read calls it, so it divides
// by a constant and allocates nothing.
func (k *Keys) Put(dst *Key, n uint64) {
	copy(dst[:], k.prefix[:])
	for i := KeySize - 1; i >= keyPrefixSize; i-- {
		q := n / 10
		dst[i] = byte('0' + n - q*10)
		n = q
	}
}

// Number returns the number of a key, and false if it is not a key of this
// population. Every key of a scan calls it, so it reads eight bytes at a time.
func (k *Keys) Number(key []byte) (uint64, bool) {
	if len(key) != KeySize {
		return 0, false
	}
	le := binary.LittleEndian
	// The two words of the prefix overlap.
	const second = keyPrefixSize - 8
	strange := (le.Uint64(key) ^ le.Uint64(k.prefix[:])) | (le.Uint64(key[second:]) ^ le.Uint64(k.prefix[second:]))
	// The upper half of a digit is 3. Adding 6 to its lower half does not carry.
	digits := le.Uint64(key[keyPrefixSize:])
	strange |= (digits&0xf0f0f0f0f0f0f0f0 | (digits+0x0606060606060606)&0xf0f0f0f0f0f0f0f0>>4) ^ 0x3333333333333333
	tens, ones := uint64(key[KeySize-2]-'0'), uint64(key[KeySize-1]-'0')
	if strange != 0 || tens > 9 || ones > 9 {
		return 0, false
	}
	return eightDigits(digits)*100 + tens*10 + ones, true
}

// eightDigits returns the number of eight digits, the first in the lowest byte. Pairs of
// digits become numbers below 100, pairs of those numbers become numbers below 10,000, and
// so on.
func eightDigits(digits uint64) uint64 {
	digits &= 0x0f0f0f0f0f0f0f0f
	digits = digits*10 + digits>>8
	digits = (digits&0x000000ff000000ff)*(100+1_000_000<<32) + (digits>>16&0x000000ff000000ff)*(1+10_000<<32)
	return digits >> 32
}
