// Package noise makes bytes that no compression makes fewer. It is imported by
// tests only, and there is one, because tests make gigabytes of it under the race
// detector, which looks at every single store: one of eight bytes costs it no more
// than one of a byte.
package noise

import (
	"encoding/binary"
	"math/rand/v2"
)

// Fill fills b with noise.
func Fill(rng *rand.Rand, b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
		b = b[8:]
	}
	if len(b) > 0 {
		copy(b, binary.LittleEndian.AppendUint64(nil, rng.Uint64()))
	}
}

// Bytes returns n bytes of noise.
func Bytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	Fill(rng, b)
	return b
}
