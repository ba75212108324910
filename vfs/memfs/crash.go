package memfs

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/vfs"
)

// A CrashKind is a kind of state that a power cut can leave.
//
// # Legal states
//
// A state is legal if a system that keeps exactly the promises of package vfs could
// leave it. For files:
//
//   - The device writes each sector of 512 bytes completely or not at all, in any order
//     and at any time after the write. Every sector thus has its durable bytes, or the
//     bytes that readers saw after one of the unsynced operations. It never mixes them:
//     a sector with the later of two writes also has the earlier one.
//   - The length is the durable one, or one that the file had after an unsynced
//     operation. If the file grew, the length may also lie in between, at the end of a
//     sector, because systems advance it while they write data.
//   - The length and the bytes reach the device in any order. Consider a sector within
//     the length that was not written, in a block that an unsynced operation allocated.
//     It has zeros, garbage, or what the block contained before.
//   - Data that a successful sync covered is there, in every kind.
//
// For directories:
//
//   - Until SyncDir, each change of a directory survives or is lost by itself, in any
//     order. A rename within a directory is one change: the new name leads to the file
//     or it does not. Weaker systems may also keep the old name.
//   - Nothing is ordered between two directories, or between a file and its name. A name
//     may exist without the contents. Synced contents are lost if the name is lost.
//     Journaling file systems do better; they leave the states of Prefix, which are also
//     legal.
//   - A durable name that no later change affects is there, in every kind.
//
// The kinds do not cover all legal states, which are too many. Each kind samples a
// failure that real systems are known for.
type CrashKind uint8

// The kinds. A kind that concerns some changes only keeps all others.
const (
	// KeepNone keeps nothing that was not synced.
	KeepNone CrashKind = iota
	// KeepAll keeps everything.
	KeepAll
	// Prefix keeps the operations up to a point, like a system that writes everything
	// in order.
	Prefix
	// Suffix keeps the operations after a point and loses the earlier ones.
	Suffix
	// Subset keeps a random subset of the operations.
	Subset
	// LoseOne loses one operation.
	LoseOne
	// KeepOne keeps one operation.
	KeepOne
	// Torn keeps some sectors of each write.
	Torn
	// TornLast keeps some sectors of the last write of each file.
	TornLast
	// Hole loses a range of sectors in each file.
	Hole
	// SizeBeforeData keeps lengths and names, and no data.
	SizeBeforeData
	// DataBeforeSize keeps data, and no change of a length.
	DataBeforeSize
	// ZeroTail loses the data from a point on. New blocks have zeros.
	ZeroTail
	// GarbageTail is ZeroTail with random bytes in new blocks.
	GarbageTail
	// StaleTail is ZeroTail with bytes of other files in new blocks.
	StaleTail
	// ShortTail truncates files that grew at a point in the new part.
	ShortTail
	// NamesOnly keeps changes of directories, and no changes of files.
	NamesOnly
	// ContentsOnly keeps changes of files, and no changes of directories.
	ContentsOnly
	// NamesSubset keeps a random subset of the changes of directories.
	NamesSubset
	// NamesPrefix keeps the changes of each directory up to a point of its own.
	NamesPrefix
	// CreatesLost loses creations and new links.
	CreatesLost
	// RenamesLost loses renames: the files have their old names.
	RenamesLost
	// RenamesDoubled keeps renames, and keeps the old names as well.
	RenamesDoubled
	// RemovalsLost loses removals: the files exist.
	RemovalsLost
	// OneFileLost loses the unsynced changes of one file.
	OneFileLost
	// OneFileKept loses the unsynced changes of all files but one.
	OneFileKept
	// CategoryLost loses the unsynced changes of all files of one category.
	CategoryLost
	// Mixed treats each file and each change of a directory in a random way.
	Mixed
	crashKindCount
)

var crashKindNames = [crashKindCount]string{
	"keep none", "keep all", "prefix", "suffix", "subset", "lose one",
	"keep one", "torn", "torn last", "hole", "size before data",
	"data before size", "zero tail", "garbage tail", "stale tail",
	"short tail", "names only", "contents only", "names subset",
	"names prefix", "creates lost", "renames lost", "renames doubled",
	"removals lost", "one file lost", "one file kept", "category lost",
	"mixed",
}

// String returns the name of the kind.
func (k CrashKind) String() string {
	if k < crashKindCount {
		return crashKindNames[k]
	}
	return "unknown crash kind"
}

// CrashKinds returns all kinds.
func CrashKinds() []CrashKind {
	kinds := make([]CrashKind, crashKindCount)
	for i := range kinds {
		kinds[i] = CrashKind(i)
	}
	return kinds
}

// Crash returns a disk as a power cut at this moment may leave it. Everything on the new
// disk is durable. m does not change. The result depends only on the state of m, on kind
// and on the state of rng.
func (m *FS) Crash(kind CrashKind, rng *rand.Rand) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keepsNothing {
		return m.cloneLocked()
	}
	return m.crashLocked(planCrash(kind, m, rng), rng)
}

// Unsynced returns the operations that no sync has covered, of all files and
// directories, in order. For a change of a directory, Path is the name within the
// directory. For a change of a file, Path is empty, because the file may have no name.
func (m *FS) Unsynced() []vfs.Op {
	m.mu.RLock()
	defer m.mu.RUnlock()
	journal := m.journalLocked()
	ops := make([]vfs.Op, len(journal))
	for i, j := range journal {
		ops[i] = j.op
	}
	return ops
}

// CrashKeeping returns a disk as a power cut may leave it. The disk has those operations
// of Unsynced for whose index keep returns true, and lost the others.
func (m *FS) CrashKeeping(keep func(i int) bool) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[uint64]bool{}
	for i, j := range m.journalLocked() {
		kept[j.seq] = keep(i)
	}
	// Plans of whole operations and zeros use no random numbers.
	return m.crashLocked(wholeOps(func(seq uint64) bool { return kept[seq] }, fillZeros), nil)
}

// journaled is an unsynced operation and its sequence number.
type journaled struct {
	seq uint64
	op  vfs.Op
}

func (m *FS) journalLocked() []journaled {
	var all []journaled
	for _, ino := range m.mu.inodes {
		for _, op := range ino.journal {
			all = append(all, journaled{op.seq, vfs.Op{Kind: op.kind, Category: ino.cat, Off: op.off, Len: op.n}})
		}
		if ino.dir == nil {
			continue
		}
		for _, op := range ino.dir.journal {
			all = append(all, journaled{op.seq, vfs.Op{Kind: op.kind, Path: op.name, NewPath: op.newName}})
		}
	}
	slices.SortFunc(all, func(a, b journaled) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// sortedLocked returns the inodes by number, so that random choices do not depend on the
// order of a map.
func (m *FS) sortedLocked() []*inode {
	inodes := make([]*inode, 0, len(m.mu.inodes))
	for _, ino := range m.mu.inodes {
		inodes = append(inodes, ino)
	}
	slices.SortFunc(inodes, func(a, b *inode) int { return cmp.Compare(a.id, b.id) })
	return inodes
}
