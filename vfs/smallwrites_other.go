//go:build darwin || freebsd

package vfs

// A writeWindow is empty: these systems cannot make many pages of a mapping writable with
// one call.
type writeWindow struct{}

// WillWrite does nothing.
func (f *osFile) WillWrite(int64, int64) {}

func (*writeWindow) takes(int) bool                { return false }
func (*writeWindow) write(int, []byte, int64) bool { return false }
func (*writeWindow) drop()                         {}
