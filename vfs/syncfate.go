package vfs

// A SyncFate is what happened to the data of a failed sync. The error of the sync
// does not tell.
//
// Tests with injected faults choose it. Package vfs/faultfs passes it to these methods,
// if the wrapped file or file system implements them, as in vfs/memfs:
//
//	FailSync(fate SyncFate, rng *rand.Rand)                 // of a File
//	FailSyncDir(dir string, fate SyncFate, rng *rand.Rand)  // of an FS
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
