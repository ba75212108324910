// Package hostile measures how much memory a decoder allocates for bytes that an
// attacker prepared. Only tests import it.
package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
)

// Allocated returns how many bytes do allocates. It counts the whole process, so
// the calling test must not be parallel.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Lengths overwrites four bytes of good, at every multiple of step, with each of
// the numbers. It returns an error if try then allocates more than twice what it
// allocates for good, plus slack. If prepare is not nil, it corrects the
// checksums of the changed bytes, or returns false to skip them.
func Lengths(good []byte, step int, numbers []uint32, slack uint64, prepare func(spoiled []byte) bool, try func([]byte)) error {
	most := 2*Allocated(func() { try(good) }) + slack
	for at := 0; at+4 <= len(good); at += step {
		for _, n := range numbers {
			spoiled := bytes.Clone(good)
			binary.LittleEndian.PutUint32(spoiled[at:], n)
			if prepare != nil && !prepare(spoiled) {
				continue
			}
			if got := Allocated(func() { try(spoiled) }); got > most {
				return fmt.Errorf("%d at byte %d of %d: %d bytes are allocated, want %d at most", n, at, len(good), got, most)
			}
		}
	}
	return nil
}
