// Package hostile measures what bytes cost that somebody prepared to do harm. It
// is imported by tests only.
package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
)

// Allocated returns how many bytes do allocates. The test that asks must not be
// parallel: everybody's are counted.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Lengths puts each of some numbers over the four bytes at every step of good, and
// returns an error if try then allocates more than slack beyond twice what it does
// with good. prepare, if it is not nil, makes the checksums of the spoiled bytes
// right, or returns false to leave them out.
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
