package table

import "math/bits"

// ApproachMax is how many tables are approached together.
const ApproachMax = 16

// Approach brings what a seek of key will read in each of several tables into
// the cache, as far as it is in memory: fences, the directory, the keys of the
// block. In one table each step of that waits for the cache miss of the one
// before; here a step is done in all tables before the next one, so that their
// misses overlap. There are ApproachMax tables at most. It returns a number of
// no meaning.
func Approach(tables []*Reader, key []byte) (sum uint64) {
	var blocks, left [ApproachMax]int
	var fences [ApproachMax]uint64
	for i, r := range tables {
		fences[i] = fenceOf(key[min(r.shared, len(key)):])
		left[i] = int(r.blocks)
	}
	// A binary search in all of them, without branches that depend on what is
	// found: the processor begins the loads of the next table while it waits.
	for searching := true; searching; {
		searching = false
		for i, r := range tables {
			if left[i] > 1 {
				half := left[i] / 2
				_, less := bits.Sub64(r.fence(blocks[i]+half), fences[i]+1, 0)
				blocks[i] += half & -int(less)
				left[i] -= half
				searching = searching || left[i] > 1
			}
		}
	}
	for i, r := range tables {
		if left[i] > 0 {
			sum += uint64(r.directory[blocks[i]*blockEntrySize])
		}
	}
	for i, r := range tables {
		if b := blocks[i]; left[i] > 0 && r.keysOK.has(b) {
			e := r.entryOf(b)
			for at := int64(0); at < min(int64(e.keyLen), approachBytes); at += cacheLine {
				sum += uint64(r.data[e.keyOff+at])
			}
		}
	}
	return sum
}

const (
	cacheLine = 64
	// approachBytes is how much of a block's keys is touched: mostly all.
	approachBytes = 8 * cacheLine
)
