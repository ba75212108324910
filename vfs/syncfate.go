package vfs

// A SyncFate is what happened to the data of a failed sync. The error of the sync
// does not tell.
//
// Tests with injected faults choose it. Package vfs/faultfs passes it on to files
// with a method FailSync(SyncFate, *rand.Rand) and to file systems with a method
// FailSyncDir(string, SyncFate, *rand.Rand), as those of vfs/memfs are.
type SyncFate uint8

// The fates of the data of a failed sync.
const (
	// SyncDropped: nothing reached the device. The system treats the data as
	// written, as Linux does, so that later syncs skip it.
	SyncDropped SyncFate = iota
	// SyncKept: all data reached the device.
	SyncKept
	// SyncHalf: some sectors, lengths and names reached the device. The system
	// treats the rest as SyncDropped does.
	SyncHalf
	// SyncNotTried: nothing happened. The next sync covers the data.
	SyncNotTried
)
