package stoat

import (
	"log/slog"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// Durability says what a commit waits for.
type Durability uint8

const (
	// Synced commits return when the transaction is on the device.
	Synced Durability = iota + 1
	// Buffered commits return when the transaction has been handed to the
	// operating system. It survives a crash of the process; a power cut may
	// lose the last of them, never one before another that it keeps.
	Buffered
)

// Options tune a database. The zero value of every field means its default.
type Options struct {
	// Durability of commits that do not choose their own. Default: Synced.
	Durability Durability

	// MemoryBudget is how many bytes of memory the database takes: memtables,
	// what it knows of open files, and the mapped pages of files. Mapped pages
	// that are in use may be more as long as the machine has memory, since the
	// kernel takes them back by itself when somebody needs them; idle ones are
	// given back. Default: 256 MiB. Range: 1 MiB to 1 TiB.
	MemoryBudget int64

	// MemtableSize is the size in bytes at which a memtable is full and the
	// next one begins. Up to three of them are held, also where that is more than
	// MemoryBudget. Default: an eighth of MemoryBudget. Range: 64 KiB to 4 GiB.
	MemtableSize int64

	// ValueThreshold is the length in bytes from which values are kept apart
	// from their keys, in value files. Default: 512. Range: 64 to 1 MiB.
	ValueThreshold int64

	// LargeValueThreshold is the length in bytes from which the values of a
	// transaction that has two megabytes of them, or a quarter of MemtableSize if
	// that is less, are written once, straight to value files, instead of to the
	// log first. They lie in the order of the commits, and values of 4 KiB and more
	// stay so until DB.Compact brings those of up to 64 KiB into the order of their
	// keys. Default: 4 KiB. Range: from ValueThreshold to 1 GiB.
	LargeValueThreshold int64

	// Compression of values on the disk; keys are stored without what their
	// neighbours have in common in any case. A database written with one setting
	// may be opened with any other, which holds for what is written from then
	// on. Values apart of less than 256 bytes or more than 256 KiB, and those given
	// to SetReader that have a file of their own, are not compressed.
	// Default: CompressionNone.
	Compression Compression

	// NumVersions is how many versions of a key are kept at least, for
	// iterators over all versions: the newest ones, as far back as the newest
	// deletion or expired value. Versions that an open transaction sees are kept
	// in any case. Default: 1.
	NumVersions int

	// ReadOnly opens a database that exists to be read, without changing a
	// byte on the disk: it may lie on a read-only medium, or not have been
	// closed in order. Writing returns ErrReadOnly. What is in the log is held
	// in memory. Any number may have the database open in this way at the same
	// time, in one process or in several, and nobody beside them who writes:
	// that takes the file LOCK, which a copy made by other means than Checkpoint
	// may lack.
	ReadOnly bool

	// FS is where the database lives. Default: the operating system's files.
	// NewMemFS makes one in memory.
	FS FS

	// Clock tells the time for expiry. Default: the machine's.
	Clock Clock

	// Events is called with what happens in the background, one event after
	// the other, on a goroutine of the database that holds no lock. A slow
	// callback delays the events after it and nothing else. It may use the
	// database, but must not close it: Close waits for the last event, and there
	// are none after it.
	Events func(Event)

	// Logger receives what an operator should know, events included; quiet by
	// default.
	Logger *slog.Logger
}

// FS is the file system that a database runs on: the operating system's unless
// Options say otherwise, or one in memory, which NewMemFS makes. Its methods are
// Create, Open, OpenReadWrite, Rename, Link, Remove, List, MkdirAll, SyncDir, Stat,
// Lock, LockShared, LockDir, Free, Abs, Join, Base and Dir; they take and return types that
// only this module can name. Who wants to change one of them embeds an FS.
type FS = vfs.FS

// A Clock tells the time by its only method,
//
//	Now() time.Time
//
// which is called from many goroutines. It may go back: what has expired stays
// expired.
type Clock = base.Clock

const (
	memoryBudgetDefault = 256 << 20
	memoryBudgetMin     = 1 << 20
	memoryBudgetMax     = 1 << 40

	memtableShare   = 8 // of the budget, one of so many parts
	memtableSizeMin = 64 << 10
	memtableSizeMax = 4 << 30

	valueThresholdDefault = 512
	valueThresholdMin     = 64
	valueThresholdMax     = 1 << 20

	largeValueThresholdDefault = 4 << 10
	largeValueThresholdMax     = 1 << 30
)

// withDefaults returns a copy of o, which may be nil, with every field
// filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Durability == 0 {
		c.Durability = Synced
	}
	if c.MemoryBudget == 0 {
		c.MemoryBudget = memoryBudgetDefault
	}
	if c.MemtableSize == 0 {
		c.MemtableSize = min(max(c.MemoryBudget/memtableShare, memtableSizeMin), memtableSizeMax)
	}
	if c.ValueThreshold == 0 {
		c.ValueThreshold = valueThresholdDefault
	}
	if c.LargeValueThreshold == 0 {
		c.LargeValueThreshold = max(largeValueThresholdDefault, c.ValueThreshold)
	}
	if c.Compression == 0 {
		c.Compression = CompressionNone
	}
	if c.NumVersions == 0 {
		c.NumVersions = 1
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Clock == nil {
		c.Clock = base.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate names the first field out of range.
func (o *Options) validate() error {
	if o.Durability != Synced && o.Durability != Buffered {
		return invalid("Options.Durability is %d, want Synced or Buffered", o.Durability)
	}
	if o.MemoryBudget < memoryBudgetMin || o.MemoryBudget > memoryBudgetMax {
		return invalid("Options.MemoryBudget is %d, want %d to %d",
			o.MemoryBudget, int64(memoryBudgetMin), int64(memoryBudgetMax))
	}
	if o.MemtableSize < memtableSizeMin || o.MemtableSize > memtableSizeMax {
		return invalid("Options.MemtableSize is %d, want %d to %d",
			o.MemtableSize, int64(memtableSizeMin), int64(memtableSizeMax))
	}
	if o.ValueThreshold < valueThresholdMin || o.ValueThreshold > valueThresholdMax {
		return invalid("Options.ValueThreshold is %d, want %d to %d", o.ValueThreshold, valueThresholdMin, valueThresholdMax)
	}
	if o.LargeValueThreshold < o.ValueThreshold || o.LargeValueThreshold > largeValueThresholdMax {
		return invalid("Options.LargeValueThreshold is %d, want %d to %d",
			o.LargeValueThreshold, o.ValueThreshold, int64(largeValueThresholdMax))
	}
	if o.Compression < CompressionNone || o.Compression > CompressionSmall {
		return invalid("Options.Compression is %d, want CompressionNone, CompressionFast or CompressionSmall", o.Compression)
	}
	if o.NumVersions < 1 {
		return invalid("Options.NumVersions is %d, want 1 or more", o.NumVersions)
	}
	return nil
}

// Compression says how values are compressed on the disk. What does not become
// smaller by an eighth stays as it is, whatever is said here.
type Compression uint8

const (
	// CompressionNone stores values as they are. They are read without a copy.
	CompressionNone Compression = iota + 1
	// CompressionFast takes about a microsecond for each kilobyte, read or
	// written. Text shrinks to a half or less.
	CompressionFast
	// CompressionSmall makes that about a quarter smaller still. It takes four
	// times as long to read values that are kept apart or seldom change, and ten
	// times as long to write them.
	CompressionSmall
)

// ofValues returns the codec of values in value files. Where they were written
// first, there they stay.
func (c Compression) ofValues() codec.ID {
	switch c {
	case CompressionFast:
		return codec.S2
	case CompressionSmall:
		return codec.Zstd
	}
	return codec.None
}

// ofTables returns the codec of values in tables of a level. What lies above
// the last one is soon written again.
func (c Compression) ofTables(level int) codec.ID {
	if c == CompressionSmall && level < manifest.Levels-1 {
		return codec.S2
	}
	return c.ofValues()
}
