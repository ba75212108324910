package memfs

import (
	"math/rand/v2"

	"github.com/stoatdb/stoat/vfs"
)

// sectorSize is the number of bytes that a device writes completely or not at all.
const sectorSize = 512

// A crashPlan decides which unsynced operations a crash keeps.
type crashPlan struct {
	file  func(ino *inode) fileFate
	entry func(op dirOp) entryFate
}

// A fileFate decides what happens to the unsynced operations of one file.
type fileFate struct {
	// data decides about the data of the i-th operation.
	data func(i int) dataFate
	// sector decides about one sector of the i-th operation, if its data is torn.
	sector func(i int, sector int64) bool
	// size decides whether the length after the i-th operation is kept.
	size func(i int) bool
	// fill is the content of new blocks without kept data.
	fill fill
	// shorten truncates a file that grew at a sector of the new part.
	shorten bool
	// all and none report that every operation is kept or lost. crashFile then need not
	// process the operations.
	all, none bool
}

type dataFate uint8

const (
	dataLost dataFate = iota
	dataKept
	dataTorn
)

type fill uint8

const (
	fillZeros fill = iota
	fillGarbage
	fillStale
	fillCount
)

type entryFate uint8

const (
	entryLost entryFate = iota
	entryKept
	// entryDoubled keeps a rename and its old name.
	entryDoubled
)

func randomFill(rng *rand.Rand) fill { return fill(rng.IntN(int(fillCount))) }

// chance returns a coin with a random bias. States that keep nearly all or nearly no
// operations are then as common as those that keep half.
func chance(rng *rand.Rand) func() bool {
	p := rng.Float64()
	return func() bool { return rng.Float64() < p }
}

func keepFile(*inode) fileFate {
	return fileFate{
		data: func(int) dataFate { return dataKept },
		size: func(int) bool { return true },
		all:  true,
	}
}

func loseFile(*inode) fileFate {
	return fileFate{
		data: func(int) dataFate { return dataLost },
		size: func(int) bool { return false },
		none: true,
	}
}

func keepEntry(dirOp) entryFate { return entryKept }
func loseEntry(dirOp) entryFate { return entryLost }

// wholeOps returns a plan that keeps the complete operations for which keep returns true.
func wholeOps(keep func(seq uint64) bool, fill fill) crashPlan {
	return crashPlan{
		file: func(ino *inode) fileFate {
			return fileFate{
				data: func(i int) dataFate {
					if keep(ino.journal[i].seq) {
						return dataKept
					}
					return dataLost
				},
				size: func(i int) bool { return keep(ino.journal[i].seq) },
				fill: fill,
			}
		},
		entry: func(op dirOp) entryFate {
			if keep(op.seq) {
				return entryKept
			}
			return entryLost
		},
	}
}

// planCrash makes the random choices of a kind for the whole disk. The returned plan
// makes those for single files and operations.
func planCrash(kind CrashKind, m *FS, rng *rand.Rand) crashPlan {
	all := crashPlan{file: keepFile, entry: keepEntry}
	files := func(f func(ino *inode) fileFate) crashPlan { return crashPlan{f, keepEntry} }
	entries := func(f func(op dirOp) entryFate) crashPlan { return crashPlan{keepFile, f} }
	switch kind {
	case KeepNone:
		return crashPlan{loseFile, loseEntry}
	case Prefix, Suffix, Subset, LoseOne, KeepOne:
		return planOps(kind, m.journalLocked(), rng)
	case Torn, TornLast, Hole, SizeBeforeData, DataBeforeSize,
		ZeroTail, GarbageTail, StaleTail, ShortTail:
		return files(func(ino *inode) fileFate { return planFile(kind, ino, rng) })
	case NamesOnly:
		return crashPlan{loseFile, keepEntry}
	case ContentsOnly:
		return crashPlan{keepFile, loseEntry}
	case NamesSubset:
		coin := chance(rng)
		return entries(func(dirOp) entryFate { return entryIf(coin()) })
	case NamesPrefix:
		return entries(planDirPrefixes(m, rng))
	case CreatesLost:
		return entries(func(op dirOp) entryFate {
			return entryIf(op.kind != vfs.OpCreate && op.kind != vfs.OpMkdir && op.kind != vfs.OpLink)
		})
	case RenamesLost:
		return entries(func(op dirOp) entryFate { return entryIf(op.kind != vfs.OpRename) })
	case RenamesDoubled:
		return entries(func(op dirOp) entryFate {
			if op.kind == vfs.OpRename {
				return entryDoubled
			}
			return entryKept
		})
	case RemovalsLost:
		return entries(func(op dirOp) entryFate { return entryIf(op.kind != vfs.OpRemove) })
	case OneFileLost, OneFileKept, CategoryLost:
		return files(planSome(kind, m, rng))
	case Mixed:
		return planMixed(m, rng)
	}
	return all
}

func entryIf(kept bool) entryFate {
	if kept {
		return entryKept
	}
	return entryLost
}

// planOps plans the kinds that keep or lose complete operations.
func planOps(kind CrashKind, journal []journaled, rng *rand.Rand) crashPlan {
	kept := make(map[uint64]bool, len(journal))
	point := rng.IntN(len(journal) + 1)
	coin := chance(rng)
	for i, j := range journal {
		switch kind {
		case Prefix:
			kept[j.seq] = i < point
		case Suffix:
			kept[j.seq] = i >= point
		case Subset:
			kept[j.seq] = coin()
		case LoseOne:
			kept[j.seq] = i != point
		case KeepOne:
			kept[j.seq] = i == point
		}
	}
	return wholeOps(func(seq uint64) bool { return kept[seq] }, randomFill(rng))
}

// planFile plans the kinds that treat every file in the same way.
func planFile(kind CrashKind, ino *inode, rng *rand.Rand) fileFate {
	fate := keepFile(ino)
	if len(ino.journal) == 0 {
		return fate
	}
	fate.all = false
	torn := func(int) dataFate { return dataTorn }
	switch kind {
	case Torn:
		coin, sizes := chance(rng), chance(rng)
		fate.data = torn
		fate.sector = func(int, int64) bool { return coin() }
		fate.size = func(int) bool { return sizes() }
		fate.fill = randomFill(rng)
	case TornLast:
		coin, last := chance(rng), ino.lastWrite()
		fate.data = func(i int) dataFate {
			if i == last {
				return dataTorn
			}
			return dataKept
		}
		fate.sector = func(int, int64) bool { return coin() }
		fate.fill = randomFill(rng)
	case Hole:
		from, to := ino.dirtySectors()
		a := from + rng.Int64N(to-from+1)
		b := a + rng.Int64N(to-a+1)
		fate.data = torn
		fate.sector = func(_ int, s int64) bool { return s < a || s >= b }
		fate.fill = randomFill(rng)
	case SizeBeforeData:
		fate.data = func(int) dataFate { return dataLost }
		fate.fill = randomFill(rng)
	case DataBeforeSize:
		fate.size = func(int) bool { return false }
	case ZeroTail, GarbageTail, StaleTail:
		from, to := ino.dirtySectors()
		end := from + rng.Int64N(to-from+1)
		fate.data = torn
		fate.sector = func(_ int, s int64) bool { return s < end }
		fate.fill = map[CrashKind]fill{
			ZeroTail: fillZeros, GarbageTail: fillGarbage, StaleTail: fillStale,
		}[kind]
	case ShortTail:
		fate.shorten = true
	}
	return fate
}

// lastWrite returns the index of the last write in the journal, or -1.
func (ino *inode) lastWrite() int {
	for i := len(ino.journal) - 1; i >= 0; i-- {
		if ino.journal[i].kind == vfs.OpWrite {
			return i
		}
	}
	return -1
}

// dirtySectors returns the range of sectors [from, to) that contains all writes of the
// journal.
func (ino *inode) dirtySectors() (from, to int64) {
	from = -1
	for _, op := range ino.journal {
		if op.kind != vfs.OpWrite {
			continue
		}
		first, end := op.sectors()
		if from < 0 || first < from {
			from = first
		}
		to = max(to, end)
	}
	return max(from, 0), to
}

// sectors returns the range of sectors [first, end) of the operation.
func (op fileOp) sectors() (first, end int64) {
	return op.off / sectorSize, (op.off + op.n + sectorSize - 1) / sectorSize
}

// planDirPrefixes keeps the changes of each directory up to a point of its own.
func planDirPrefixes(m *FS, rng *rand.Rand) func(op dirOp) entryFate {
	kept := map[uint64]bool{}
	for _, ino := range m.sortedLocked() {
		if ino.dir == nil {
			continue
		}
		point := rng.IntN(len(ino.dir.journal) + 1)
		for _, op := range ino.dir.journal[:point] {
			kept[op.seq] = true
		}
	}
	return func(op dirOp) entryFate { return entryIf(kept[op.seq]) }
}

// planSome plans the kinds that choose one file or category with unsynced changes.
func planSome(kind CrashKind, m *FS, rng *rand.Rand) func(ino *inode) fileFate {
	var dirty []*inode
	for _, ino := range m.sortedLocked() {
		if len(ino.journal) > 0 {
			dirty = append(dirty, ino)
		}
	}
	if len(dirty) == 0 {
		return keepFile
	}
	chosen := dirty[rng.IntN(len(dirty))]
	return func(ino *inode) fileFate {
		var keep bool
		switch kind {
		case OneFileLost:
			keep = ino != chosen
		case OneFileKept:
			keep = ino == chosen
		default:
			keep = ino.cat != chosen.cat
		}
		if keep {
			return keepFile(ino)
		}
		return loseFile(ino)
	}
}

// planMixed plans a random way for each file and each change of a directory.
func planMixed(m *FS, rng *rand.Rand) crashPlan {
	ways := []CrashKind{
		Torn, TornLast, Hole, SizeBeforeData, DataBeforeSize,
		ZeroTail, GarbageTail, StaleTail, ShortTail,
	}
	subset := planOps(Subset, m.journalLocked(), rng)
	coin := chance(rng)
	return crashPlan{
		file: func(ino *inode) fileFate {
			switch way := rng.IntN(len(ways) + 3); way {
			case 0:
				return keepFile(ino)
			case 1:
				return loseFile(ino)
			case 2:
				return subset.file(ino)
			default:
				return planFile(ways[way-3], ino, rng)
			}
		},
		entry: func(op dirOp) entryFate {
			if op.kind == vfs.OpRename && rng.IntN(4) == 0 {
				return entryDoubled
			}
			return entryIf(coin())
		},
	}
}
