//go:build invariants

package invariant

import (
	"bytes"
	"fmt"
)

// Enabled reports whether invariants are checked in this build.
const Enabled = true

// Check panics with the formatted message if ok is false. The message says what
// was found and what should hold.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("stoat: invariant broken: " + fmt.Sprintf(format, args...))
	}
}

var garbage = bytes.Repeat([]byte{0xdb}, 4096)

// Mangle overwrites b, whose borrow has ended. A reader that kept it sees
// garbage at once, rather than a rare corruption later.
func Mangle(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, garbage):]
	}
}
