//go:build invariants && !amd64 && !arm64 && !386

package lock

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutine identifies this goroutine by the number in its stack trace.
func goroutine() uintptr {
	var buf [64]byte
	text := buf[:runtime.Stack(buf[:], false)]
	text = bytes.TrimPrefix(text, []byte("goroutine "))
	if end := bytes.IndexByte(text, ' '); end >= 0 {
		text = text[:end]
	}
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		panic("lock order: no goroutine number in " + string(buf[:]))
	}
	return uintptr(id)
}
