package vfs

import "math/rand/v2"

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

// failSync is a sync of the file that fails: this handle has been told of it
// when the call returns, the others that are open will be by their next sync.
func (f *memFile) failSync(fate SyncFate, rng *rand.Rand) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	ino := f.ino
	switch fate {
	case SyncNotTried:
		return
	case SyncKept:
		ino.sync()
	case SyncDropped:
		ino.dropJournal()
	case SyncHalf:
		half := planFile(CrashTorn, ino, rng)
		half.fill = fillZeros
		ino.durable = f.mem.crashFile(ino, half, nil, rng)
		ino.dropJournal()
	}
	ino.failedSyncs++
	f.sawFailedSyncs = ino.failedSyncs
}

// dropJournal forgets what was not synced, although readers see it.
func (ino *inode) dropJournal() {
	if len(ino.journal) == 0 {
		return
	}
	ino.base = ino.live.fork()
	ino.lostData = true
	ino.journal = nil
}

// failSyncDir is a sync of the directory that fails.
func (m *Mem) failSyncDir(name string, fate SyncFate, rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findLocked(name)
	if err != nil || ino.dir == nil {
		return // then the call would have failed by itself
	}
	switch fate {
	case SyncKept:
		ino.dir.sync()
	case SyncDropped:
		ino.dir.journal = nil
	case SyncHalf:
		coin := chance(rng)
		var kept []dirOp
		for _, op := range ino.dir.journal {
			if coin() {
				kept = append(kept, op)
			}
		}
		ino.dir.journal = kept
		ino.dir.sync()
		ino.dir.journal = nil
	}
}
