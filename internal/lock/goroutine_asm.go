//go:build invariants && (amd64 || arm64 || 386)

package lock

// goroutine identifies this goroutine while it runs: it returns the address of the
// runtime's record of it.
func goroutine() uintptr
