// Package noise makes incompressible bytes. Only tests import it. Tests make
// gigabytes of noise under the race detector, which checks each store. So Fill
// stores 8 bytes at a time, which costs no more than storing one.
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
