//go:build race || !(linux || darwin || freebsd)

package vfs

func allocSparse(n int) ([]byte, error) { return allocMemory(n) }

func freeSparse(b []byte) error { return freeMemory(b) }

func adviseWhole([]byte) {}
