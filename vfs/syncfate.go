package vfs

// A SyncFate says what became of the data of a sync that failed. Nobody can
// know it from the error.
type SyncFate uint8

const (
	// SyncDropped: nothing reached the device, and the system took what it
	// could not write for written, as Linux does. Later syncs pass it over.
	SyncDropped SyncFate = iota
	// SyncKept: all of it reached the device.
	SyncKept
	// SyncHalf: some sectors, lengths and names did; the rest was dropped.
	SyncHalf
	// SyncNotTried: nothing happened. The next sync covers it.
	SyncNotTried
)
