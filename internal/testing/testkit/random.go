package testkit

import (
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RandomDurability draws Synced one time in three, and Buffered otherwise.
func RandomDurability(rng *rand.Rand) stoat.Durability {
	if rng.IntN(3) == 0 {
		return stoat.Synced
	}
	return stoat.Buffered
}

// RandomCut returns a power cut that draws anew, each time, what the disk keeps.
func RandomCut(rng *rand.Rand) func(*memfs.FS) *memfs.FS {
	kinds := memfs.CrashKinds()
	return func(m *memfs.FS) *memfs.FS { return m.Crash(kinds[rng.IntN(len(kinds))], rng) }
}

// Compressions are all levels of compression.
var Compressions = []stoat.Compression{stoat.CompressionNone, stoat.CompressionFast, stoat.CompressionSmall}
