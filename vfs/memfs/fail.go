package memfs

import (
	"math/rand/v2"

	"github.com/stoatdb/stoat/vfs"
)

// FailSync is a sync of the file that fails: this handle has been told of it
// when the call returns, the others that are open will be by their next sync.
func (f *file) FailSync(fate vfs.SyncFate, rng *rand.Rand) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
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

// FailSyncDir is a sync of the directory that fails.
func (m *FS) FailSyncDir(name string, fate vfs.SyncFate, rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findLocked(name)
	if err != nil || ino.dir == nil {
		return // then the call would have failed by itself
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
