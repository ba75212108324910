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
	// Buffered commits return when the operating system has the transaction. It
	// then survives a crash of the process. A power cut may lose the newest
	// buffered commits. It never loses a commit and keeps a later one.
	Buffered
)

// Options tune a database. The zero value of every field means its default.
type Options struct {
	// Durability is the durability of commits without their own. Default: Synced.
	Durability Durability

	// MemoryBudget is the memory of the database in bytes: memtables, data about
	// open files, and mapped pages of files. Default: 256 MiB. Range: 1 MiB to 1
	// TiB.
	//
	// Mapped pages in use may exceed the budget while the machine has memory to
	// spare, because the kernel reclaims them on demand. The database gives idle
	// pages back.
	MemoryBudget int64

	// MemtableSize is the size in bytes at which a memtable is full and the next
	// one begins. The database holds up to three memtables, even if they exceed
	// MemoryBudget. Default: an eighth of MemoryBudget. Range: 64 KiB to 4 GiB.
	MemtableSize int64

	// ValueThreshold is the length in bytes from which the database stores values
	// in value files, apart from their keys. Default: 512. Range: 64 to 1 MiB.
	ValueThreshold int64

	// LargeValueThreshold is the length in bytes from which a value is large.
	// Default: 4 KiB. Range: from ValueThreshold to 1 GiB.
	//
	// A commit with two megabytes of large values, or a quarter of MemtableSize if
	// that is less, writes them once, straight to value files. Other commits write
	// their values to the log first.
	//
	// Values that a commit wrote straight to value files lie there in the order of
	// the commits. Those of 4 KiB and more stay in that order until DB.Compact,
	// which orders values of up to 64 KiB by their keys.
	LargeValueThreshold int64

	// Compression says how the database compresses values. It always stores keys
	// without the prefix that they share with their neighbours. Default:
	// CompressionNone.
	//
	// A database opens with any setting, whatever setting wrote it. The setting
	// applies to later writes. Values in value files stay uncompressed if they have
	// less than 256 bytes or more than 256 KiB. So do values with their own file
	// from SetReader.
	Compression Compression

	// NumVersions is how many versions of a key the database keeps at least, for
	// iterators with AllVersions. It keeps the newest versions, back to the newest
	// deletion or expired value. It always keeps versions that an open transaction
	// sees. Default: 1.
	NumVersions int

	// ReadOnly opens an existing database without changing a byte on the disk. The
	// database may lie on a read-only medium, and its last writer may have died.
	// Writes return ErrReadOnly. Open keeps the transactions of the log in memory.
	//
	// Any number of read-only opens may share a database, in one process or in
	// several. The file LOCK keeps writers out meanwhile. A copy that Checkpoint did
	// not make may lack that file; then nothing keeps writers out.
	ReadOnly bool

	// FS is the file system of the database. Default: the files of the operating
	// system. NewMemFS makes a file system in memory.
	FS FS

	// Clock tells the time for expiry. Default: the clock of the machine.
	Clock Clock

	// Events receives events from the background, one after the other, on a
	// goroutine of the database that holds no lock. A slow callback delays only
	// later events. The callback may use the database. It must not close the
	// database: Close waits for the last event. No event follows Close.
	Events func(Event)

	// Logger receives what an operator should know, events included. Default: no
	// logging.
	Logger *slog.Logger
}

// FS is the file system of a database: that of the operating system, or one in
// memory from NewMemFS. Its methods are
//
//	Create, Open, OpenReadWrite, Rename, Link, Remove, List, MkdirAll, SyncDir,
//	Stat, Lock, LockShared, LockDir, Free, Abs, Join, Base, Dir
//
// Package vfs declares them and their types. To change one method, embed an FS.
type FS = vfs.FS

// A Clock tells the time by its only method,
//
//	Now() time.Time
//
// Many goroutines call it. It may go back: expired values stay expired.
type Clock = base.Clock

const (
	// Bounds and default of Options.MemoryBudget, in bytes.
	memoryBudgetDefault = 256 << 20
	memoryBudgetMin     = 1 << 20
	memoryBudgetMax     = 1 << 40

	// The default of Options.MemtableSize is MemoryBudget divided by memtableShare.
	// Its bounds are in bytes.
	memtableShare   = 8
	memtableSizeMin = 64 << 10
	memtableSizeMax = 4 << 30

	// Bounds and default of Options.ValueThreshold, in bytes.
	valueThresholdDefault = 512
	valueThresholdMin     = 64
	valueThresholdMax     = 1 << 20

	// Bounds and default of Options.LargeValueThreshold, in bytes. The lower bound
	// is ValueThreshold.
	largeValueThresholdDefault = 4 << 10
	largeValueThresholdMax     = 1 << 30
)

// withDefaults returns a copy of o with every field set. o may be nil.
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

// validate returns an error about the first field out of range.
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

// Compression says how the database compresses values on the disk. With any
// setting, it stores data uncompressed that would not shrink by an eighth.
type Compression uint8

const (
	// CompressionNone stores values as they are. Reads do not copy them.
	CompressionNone Compression = iota + 1
	// CompressionFast takes about a microsecond for each kilobyte, read or written.
	// Text shrinks to a half or less.
	CompressionFast
	// CompressionSmall makes values about a quarter smaller than CompressionFast.
	// Values in value files, and values that seldom change, take four times as long
	// to read and ten times as long to write.
	CompressionSmall
)

// ofValues returns the codec of values in value files. Values stay in the value
// file that they were first written to, so they use the final codec at once.
func (c Compression) ofValues() codec.ID {
	switch c {
	case CompressionFast:
		return codec.S2
	case CompressionSmall:
		return codec.Zstd
	}
	return codec.None
}

// ofTables returns the codec of values in tables of a level. Merges soon rewrite
// tables above the last level, so those use the fast codec.
func (c Compression) ofTables(level int) codec.ID {
	if c == CompressionSmall && level < manifest.Levels-1 {
		return codec.S2
	}
	return c.ofValues()
}
