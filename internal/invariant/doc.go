// Package invariant checks what must hold inside stoat. The checks run in builds
// with the tag "invariants". In other builds Enabled is the constant false, and
// the compiler drops them.
//
// An invariant never has a side effect. It is never the only check on bytes from
// a disk or a caller.
package invariant
