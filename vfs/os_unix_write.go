//go:build darwin || freebsd

package vfs

// A writeWindow would map the part of a file that small writes fill. These systems cannot
// make pages of a mapping ready for writes without a fault for each.
type writeWindow struct{}

// WillWrite does nothing.
func (f *osFile) WillWrite(int64, int64) {}

func (*writeWindow) takes(int) bool                { return false }
func (*writeWindow) write(int, []byte, int64) bool { return false }
func (*writeWindow) drop()                         {}
