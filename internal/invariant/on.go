//go:build invariants

package invariant

import (
	"bytes"
	"fmt"
)

// Enabled reports whether invariants are checked in this build.
const Enabled = true

// Check panics with the formatted message when ok is false. The message
// states what should have held and what was found.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("stoat: invariant broken: " + fmt.Sprintf(format, args...))
	}
}

var garbage = bytes.Repeat([]byte{0xdb}, 4096)

// Mangle spoils b, whose borrow has ended, so that a reader that kept it
// sees garbage at once rather than a rare corruption later.
func Mangle(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, garbage):]
	}
}
