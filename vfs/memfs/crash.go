package memfs

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/vfs"
)

// A CrashKind is a way in which a power cut can treat what was not synced.
//
// # What is legal
//
// A crash state is legal when a system that keeps the promises of this
// package, and no others, could leave it. Of files:
//
//   - The device writes sectors of 512 bytes whole or not at all, in any
//     order, each at any moment since the write. So every sector holds the
//     durable bytes, or the bytes that the file showed after one of the
//     unsynced operations. It never mixes them: a sector with the later of
//     two writes has the earlier as well.
//   - The length is one that the file had at the durable image or after one
//     of the unsynced operations. Where it grew, it may also lie between, at
//     the end of a sector: systems move it while they write back.
//   - The length and the bytes come in any order. A sector inside the length
//     to which nothing was written, in a block that was not part of the
//     durable image but that an unsynced operation took into use, holds zeros,
//     garbage, or what the block held in an earlier life.
//   - What a sync that returned nil covered is there, in every kind.
//
// Of directories:
//
//   - Each change of a directory survives or not by itself, in any order,
//     until SyncDir. A rename within a directory is one change: the new name
//     leads to the file or it does not. Weaker systems may keep the old name
//     besides.
//   - Nothing is ordered between directories, or between a file and its
//     name: a name may be there without the contents, and contents that were
//     synced are lost if the name was not. Journaling systems do better, and
//     then the states are those of CrashPrefix, which are among the rest.
//   - An entry that is durable and that no later change is about is there, in
//     every kind.
//
// The kinds are not the whole of the legal states, which are too many, but a
// sample of each way of going wrong that a real system is known for.
type CrashKind uint8

// The kinds. Where a kind speaks of one aspect only, the rest is kept.
const (
	// CrashKeepNone keeps nothing that was not synced.
	KeepNone CrashKind = iota
	// CrashKeepAll keeps everything.
	KeepAll
	// CrashPrefix keeps the operations up to a moment, as a system does that
	// orders all it writes.
	Prefix
	// CrashSuffix keeps the later operations and loses the earlier.
	Suffix
	// CrashSubset keeps each operation or not.
	Subset
	// CrashLoseOne loses one operation.
	LoseOne
	// CrashKeepOne keeps one operation.
	KeepOne
	// CrashTorn keeps of each write some sectors.
	Torn
	// CrashTornLast keeps of the last write of each file some sectors.
	TornLast
	// CrashHole loses a run of sectors in the middle.
	Hole
	// CrashSizeBeforeData keeps lengths and names, and no data.
	SizeBeforeData
	// CrashDataBeforeSize keeps data and no change of length.
	DataBeforeSize
	// CrashZeroTail loses the data from a point on: new blocks are zero.
	ZeroTail
	// CrashGarbageTail is like CrashZeroTail with random bytes.
	GarbageTail
	// CrashStaleTail is like CrashZeroTail with bytes of other files.
	StaleTail
	// CrashShortTail cuts files that grew at a point in what was added.
	ShortTail
	// CrashNamesOnly keeps changes of directories, and nothing of files.
	NamesOnly
	// CrashContentsOnly keeps changes of files, and nothing of directories.
	ContentsOnly
	// CrashNamesSubset keeps each change of a directory or not.
	NamesSubset
	// CrashNamesPrefix keeps each directory up to a moment of its own.
	NamesPrefix
	// CrashCreatesLost loses creations and new links.
	CreatesLost
	// CrashRenamesLost loses renames: the old names are there.
	RenamesLost
	// CrashRenamesDoubled keeps renames, and the old names besides.
	RenamesDoubled
	// CrashRemovalsLost loses removals: the files are there.
	RemovalsLost
	// CrashOneFileLost loses what was not synced of one file.
	OneFileLost
	// CrashOneFileKept keeps of what was not synced of files only one file's.
	OneFileKept
	// CrashCategoryLost loses what was not synced of one category's files.
	CategoryLost
	// CrashMixed treats each file and each directory in a way of its own.
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

// Crash returns a disk as a power cut at this moment may leave it. All that
// is on it is durable. The disk itself stays as it is. The same state, kind
// and state of rng give the same disk.
func (m *FS) Crash(kind CrashKind, rng *rand.Rand) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keepsNothing {
		return m.cloneLocked()
	}
	return m.crashLocked(planCrash(kind, m, rng), rng)
}

// Unsynced returns the operations that no sync has covered, of all files and
// directories, in the order in which they were made. Path is the name within
// the directory for changes of directories, and empty for those of files,
// which may have no name any more.
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

// CrashKeeping returns a disk as a power cut may leave it that keeps those of
// the operations that Unsynced lists for whose index keep returns true, and
// loses the others. With it, a test can try each operation in turn.
func (m *FS) CrashKeeping(keep func(i int) bool) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[uint64]bool{}
	for i, j := range m.journalLocked() {
		kept[j.seq] = keep(i)
	}
	// The generator is not asked for anything: whole operations, zeros.
	return m.crashLocked(wholeOps(func(seq uint64) bool { return kept[seq] }, fillZeros), nil)
}

// journaled is an unsynced operation with its place in the order of all.
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

// sortedLocked returns the inodes by number, so that choices made in turn do
// not depend on the order of a map.
func (m *FS) sortedLocked() []*inode {
	inodes := make([]*inode, 0, len(m.mu.inodes))
	for _, ino := range m.mu.inodes {
		inodes = append(inodes, ino)
	}
	slices.SortFunc(inodes, func(a, b *inode) int { return cmp.Compare(a.id, b.id) })
	return inodes
}
