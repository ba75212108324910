// Package invariant states what must hold inside stoat. The checks run in
// builds with the tag "invariants"; in others Enabled is the constant false and
// the compiler drops them.
//
// An invariant never has a side effect and is never the only check on bytes
// that come from a disk or from a caller.
package invariant
