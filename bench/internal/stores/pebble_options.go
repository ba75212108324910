package stores

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// pebbleOptions returns the options of Pebble's benchmark tool, with the sizes that all
// stores get, and with all values in the tables. The tool has no filters in the last level,
// and a Get does not read them there.
func pebbleOptions(c Config) *pebble.Options {
	o := &pebble.Options{
		CacheSize:                   c.CacheBytes,
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                16384,
		MemTableSize:                uint64(c.MemtableBytes),
		MemTableStopWritesThreshold: 4,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 3 },
		Logger:                      pebbleSilence{},
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 32 << 10
		l.IndexBlockSize = 256 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.FilterType = pebble.TableFilter
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	o.EnsureDefaults()
	o.FlushSplitBytes = o.TargetFileSizes[0]
	return o
}

// pebbleSilence drops log messages. A fatal one panics.
type pebbleSilence struct{}

func (pebbleSilence) Infof(string, ...any)  {}
func (pebbleSilence) Errorf(string, ...any) {}
func (pebbleSilence) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("pebble: "+format, args...))
}
