package memfs

import (
	"math/rand/v2"

	"github.com/stoatdb/stoat/vfs"
)

// FailSync simulates a failed sync of the file. The caller returns the error to the user
// of this handle. The next sync of every other open handle reports the failure.
func (f *file) FailSync(fate vfs.SyncFate, rng *rand.Rand) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	ino := f.ino
	switch fate {
	case vfs.SyncNotTried:
		return
	case vfs.SyncKept:
		ino.sync()
	case vfs.SyncDropped:
		ino.dropJournal()
	case vfs.SyncHalf:
		half := planFile(Torn, ino, rng)
		half.fill = fillZeros
		ino.durable = f.disk.crashFile(ino, half, nil, rng)
		ino.dropJournal()
	}
	ino.failedSyncs++
	f.sawFailedSyncs = ino.failedSyncs
}

// dropJournal makes the unsynced changes clean although they are not durable. Readers
// still see them.
func (ino *inode) dropJournal() {
	if len(ino.journal) == 0 {
		return
	}
	ino.base = ino.live.fork()
	ino.lostData = true
	ino.journal = nil
}

// FailSyncDir simulates a failed SyncDir. Package faultfs calls it.
func (m *FS) FailSyncDir(name string, fate vfs.SyncFate, rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findDirLocked(name)
	if err != nil {
		return // there is nothing to sync
	}
	switch fate {
	case vfs.SyncKept:
		ino.dir.sync()
	case vfs.SyncDropped:
		ino.dir.journal = nil
	case vfs.SyncHalf:
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
