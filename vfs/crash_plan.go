package vfs

import "math/rand/v2"

// sectorSize is what a device writes whole or not at all.
const sectorSize = 512

// A crashPlan decides what a crash keeps.
type crashPlan struct {
	file  func(ino *inode) fileFate
	entry func(op dirOp) entryFate
}

// A fileFate says what happens to the unsynced operations of one file.
type fileFate struct {
	// data says what of the data of the i-th operation is kept.
	data func(i int) dataFate
	// sector decides for the sectors of operations of which some are kept.
	sector func(i int, sector int64) bool
	// size says whether the length that the i-th operation left is kept.
	size func(i int) bool
	// fill is what new blocks hold where no data was kept.
	fill fill
	// shorten cuts a file that grew at a sector of what was added.
	shorten bool
	// all and none say that everything is kept or lost, to which there is a
	// shorter way than through each operation.
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
	// entryDoubled is a rename that left the old name besides.
	entryDoubled
)

func randomFill(rng *rand.Rand) fill { return fill(rng.IntN(int(fillCount))) }

// chance returns a coin of a random bias, so that states near "nearly all"
// and "nearly none" are as common as those in the middle.
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

// wholeOps keeps the operations that keep names, each as a whole.
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

// planCrash makes the choices of a kind that concern the whole disk, and
// returns a plan that makes the rest.
func planCrash(kind CrashKind, m *Mem, rng *rand.Rand) crashPlan {
	all := crashPlan{file: keepFile, entry: keepEntry}
	files := func(f func(ino *inode) fileFate) crashPlan { return crashPlan{f, keepEntry} }
	entries := func(f func(op dirOp) entryFate) crashPlan { return crashPlan{keepFile, f} }
	switch kind {
	case CrashKeepNone:
		return crashPlan{loseFile, loseEntry}
	case CrashPrefix, CrashSuffix, CrashSubset, CrashLoseOne, CrashKeepOne:
		return planOps(kind, m.journalLocked(), rng)
	case CrashTorn, CrashTornLast, CrashHole, CrashSizeBeforeData, CrashDataBeforeSize,
		CrashZeroTail, CrashGarbageTail, CrashStaleTail, CrashShortTail:
		return files(func(ino *inode) fileFate { return planFile(kind, ino, rng) })
	case CrashNamesOnly:
		return crashPlan{loseFile, keepEntry}
	case CrashContentsOnly:
		return crashPlan{keepFile, loseEntry}
	case CrashNamesSubset:
		coin := chance(rng)
		return entries(func(dirOp) entryFate { return entryIf(coin()) })
	case CrashNamesPrefix:
		return entries(planDirPrefixes(m, rng))
	case CrashCreatesLost:
		return entries(func(op dirOp) entryFate {
			return entryIf(op.kind != OpCreate && op.kind != OpMkdir && op.kind != OpLink)
		})
	case CrashRenamesLost:
		return entries(func(op dirOp) entryFate { return entryIf(op.kind != OpRename) })
	case CrashRenamesDoubled:
		return entries(func(op dirOp) entryFate {
			if op.kind == OpRename {
				return entryDoubled
			}
			return entryKept
		})
	case CrashRemovalsLost:
		return entries(func(op dirOp) entryFate { return entryIf(op.kind != OpRemove) })
	case CrashOneFileLost, CrashOneFileKept, CrashCategoryLost:
		return files(planSome(kind, m, rng))
	case CrashMixed:
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

// planOps plans the kinds that keep or lose whole operations of all files
// and directories.
func planOps(kind CrashKind, journal []journaled, rng *rand.Rand) crashPlan {
	kept := make(map[uint64]bool, len(journal))
	point := rng.IntN(len(journal) + 1)
	coin := chance(rng)
	for i, j := range journal {
		switch kind {
		case CrashPrefix:
			kept[j.seq] = i < point
		case CrashSuffix:
			kept[j.seq] = i >= point
		case CrashSubset:
			kept[j.seq] = coin()
		case CrashLoseOne:
			kept[j.seq] = i != point
		case CrashKeepOne:
			kept[j.seq] = i == point
		}
	}
	return wholeOps(func(seq uint64) bool { return kept[seq] }, randomFill(rng))
}

// planFile plans the kinds that treat each file alike.
func planFile(kind CrashKind, ino *inode, rng *rand.Rand) fileFate {
	fate := keepFile(ino)
	if len(ino.journal) == 0 {
		return fate
	}
	fate.all = false
	torn := func(int) dataFate { return dataTorn }
	switch kind {
	case CrashTorn:
		coin, sizes := chance(rng), chance(rng)
		fate.data = torn
		fate.sector = func(int, int64) bool { return coin() }
		fate.size = func(int) bool { return sizes() }
		fate.fill = randomFill(rng)
	case CrashTornLast:
		coin, last := chance(rng), ino.lastWrite()
		fate.data = func(i int) dataFate {
			if i == last {
				return dataTorn
			}
			return dataKept
		}
		fate.sector = func(int, int64) bool { return coin() }
		fate.fill = randomFill(rng)
	case CrashHole:
		from, to := ino.dirtySectors()
		a := from + rng.Int64N(to-from+1)
		b := a + rng.Int64N(to-a+1)
		fate.data = torn
		fate.sector = func(_ int, s int64) bool { return s < a || s >= b }
		fate.fill = randomFill(rng)
	case CrashSizeBeforeData:
		fate.data = func(int) dataFate { return dataLost }
		fate.fill = randomFill(rng)
	case CrashDataBeforeSize:
		fate.size = func(int) bool { return false }
	case CrashZeroTail, CrashGarbageTail, CrashStaleTail:
		from, to := ino.dirtySectors()
		end := from + rng.Int64N(to-from+1)
		fate.data = torn
		fate.sector = func(_ int, s int64) bool { return s < end }
		fate.fill = map[CrashKind]fill{
			CrashZeroTail: fillZeros, CrashGarbageTail: fillGarbage, CrashStaleTail: fillStale,
		}[kind]
	case CrashShortTail:
		fate.shorten = true
	}
	return fate
}

// lastWrite returns the index of the last write in the journal, or -1.
func (ino *inode) lastWrite() int {
	for i := len(ino.journal) - 1; i >= 0; i-- {
		if ino.journal[i].kind == OpWrite {
			return i
		}
	}
	return -1
}

// dirtySectors returns the sectors from the first to behind the last that
// the writes of the journal touch.
func (ino *inode) dirtySectors() (from, to int64) {
	from = -1
	for _, op := range ino.journal {
		if op.kind != OpWrite {
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

// sectors returns the first sector that the operation touches and the one
// behind the last.
func (op fileOp) sectors() (first, end int64) {
	return op.off / sectorSize, (op.off + op.n + sectorSize - 1) / sectorSize
}

// planDirPrefixes keeps each directory's changes up to a point of its own.
func planDirPrefixes(m *Mem, rng *rand.Rand) func(op dirOp) entryFate {
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

// planSome plans the kinds that single out a file or a category with
// something to lose.
func planSome(kind CrashKind, m *Mem, rng *rand.Rand) func(ino *inode) fileFate {
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
		case CrashOneFileLost:
			keep = ino != chosen
		case CrashOneFileKept:
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

// planMixed draws a way for each file and for each change of a directory.
func planMixed(m *Mem, rng *rand.Rand) crashPlan {
	ways := []CrashKind{
		CrashTorn, CrashTornLast, CrashHole, CrashSizeBeforeData, CrashDataBeforeSize,
		CrashZeroTail, CrashGarbageTail, CrashStaleTail, CrashShortTail,
	}
	subset := planOps(CrashSubset, m.journalLocked(), rng)
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
			if op.kind == OpRename && rng.IntN(4) == 0 {
				return entryDoubled
			}
			return entryIf(coin())
		},
	}
}
