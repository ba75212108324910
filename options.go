package stoat

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/vfs"
)

// Durability says what a commit waits for.
type Durability uint8

const (
	// Synced commits return when the transaction is on the device.
	Synced Durability = iota + 1
	// Buffered commits return when the operating system has the transaction. It
	// then survives a crash of the process. A power cut may lose the newest
	// buffered commits. In a busy database these are up to about 80 MiB of the log, and
	// more with large transactions. No time bounds this loss. DB.Sync makes all earlier
	// commits durable, and so does a later Synced commit. A power cut never loses a
	// commit and keeps a later one.
	// On Linux, reads may wait as well while an administrator freezes the file system, such as
	// for a copy of the volume, and commits continue.
	Buffered
)

// Options tune a database. The zero value of every field means its default.
//
// The database stores some of the options as its Settings: ValueThreshold,
// LargeValueThreshold, Compression, NumVersions, MergeFunction, Filter, DefaultTTL and
// ChangeRetention. A new database gets the defaults described here. For an existing
// database, the zero value leaves the stored setting as it is, and another value changes it.
// These settings hold for the default keyspace, except ChangeRetention, which holds for all.
// Other keyspaces have settings of their own; see KeyspaceOptions.
type Options struct {
	// Durability is the durability of commits without their own. Default: Synced.
	Durability Durability

	// MemoryBudget is the memory of the database in bytes: memtables, data about
	// open files, and mapped pages of files. Default: 256 MiB. Range: 1 MiB to 1
	// TiB.
	//
	// Mapped pages in use may exceed the budget while the machine has memory to
	// spare, because the kernel reclaims them on demand. The database releases idle
	// pages. On Windows, files that are read are copied into memory and stay there.
	MemoryBudget int64

	// MemtableSize is the size in bytes at which a memtable is full and the next
	// one begins. The database holds up to three memtables, even if they exceed
	// MemoryBudget. Default: an eighth of MemoryBudget. Range: 64 KiB to 4 GiB.
	MemtableSize int64

	// ValueThreshold is the length in bytes from which the database stores values
	// in value files, apart from their keys. Default: 512. Range: 64 to 1 MiB.
	//
	// With a lower threshold, gets and scans of short values are slower. With a threshold
	// of 4 KiB, warm scans of values of 1 KiB take about half the time. But compactions
	// write these values again and again.
	ValueThreshold int64

	// LargeValueThreshold is the length in bytes from which a value is large.
	// Default: 4 KiB. Range: from ValueThreshold to 1 GiB. To raise ValueThreshold
	// above the stored LargeValueThreshold, set both.
	//
	// If the large values of a commit have 2 MiB or more together, the commit writes
	// them once, straight to a value file. If MemtableSize is below 8 MiB, a quarter of it
	// is enough. Other commits write their values to the log, and a flush writes them again.
	//
	// Each such commit has value files of its own, so scans of many commits are slower.
	// DB.Compact sorts values of up to 64 KiB across commits. An idle database does so
	// where iterators have read values several times.
	LargeValueThreshold int64

	// Compression says how the database compresses values. It always stores keys
	// without the prefix that they share with their neighbours. Default:
	// CompressionNone.
	//
	// A changed setting applies to later writes, and to what compactions write. Values in
	// value files stay uncompressed if they have less than 256 bytes or more than 256 KiB.
	// So do values with their own file from SetReader.
	Compression Compression

	// NumVersions is how many versions of a key the database keeps at least, for
	// iterators with AllVersions. It keeps the newest versions, back to the newest
	// deletion or expired value. It always keeps versions that an open transaction
	// sees. Default: 1.
	//
	// After a change to a lower number, flushes and compactions drop the surplus. A
	// change to a higher number brings nothing back.
	NumVersions int

	// MergeFunction names the merge function of the database, which must be one of
	// MergeFunctions for Txn.Merge and for reads of what it wrote. After a change of name,
	// stoat merges the remaining operands with the new function. The name "none" removes
	// the stored name; keys with operands then return ErrNoMergeFunction. Default: none.
	MergeFunction string

	// MergeFunctions are the merge functions that the program has. See Txn.Merge.
	MergeFunctions []MergeFunction

	// Filter names the filter of compactions, which is one of Filters. Without that
	// filter, compactions keep all values. The name "none" removes the stored name.
	// Default: none.
	Filter string

	// Filters are the filters that the program has.
	Filters []Filter

	// MustExist makes Open return fs.ErrNotExist of package io/fs when the directory
	// holds no database. Open then creates neither a directory nor a file. Without
	// MustExist, Open creates a database. ReadOnly implies MustExist.
	MustExist bool

	// DefaultTTL is how long a value lives if its Set names no expiry time, rounded
	// up to whole milliseconds. It applies to later calls of Set. A negative DefaultTTL
	// means forever. Default: forever.
	DefaultTTL time.Duration

	// ChangeRetention is how many bytes of flushed log segments the database keeps for
	// DB.Subscribe. Value files of their commits count too. Each segment of up to 16 MiB
	// counts fully. So choose at least 32 MiB more than is written while a consumer is
	// away or copies the database.
	//
	// Open reads what is kept. The database keeps the segments of at most 256 calls of
	// Open. It deletes them when the disk is nearly full, or when that lets a transaction
	// commit. A negative ChangeRetention means none. Default: none.
	ChangeRetention int64

	// ReadOnly opens an existing database without changing a byte on the disk. The
	// database may lie on a read-only medium, and its last writer may have died.
	// Writes return ErrReadOnly. Open keeps the transactions of the log in memory. The
	// stored settings hold. Open ignores options that differ from them.
	//
	// Any number of read-only opens may share a database, in one process or in
	// several. The file LOCK keeps writers out meanwhile. A copy that Checkpoint did
	// not make may lack that file; then nothing keeps writers out.
	ReadOnly bool

	// FollowEvery is how often a database of OpenFollower looks for new commits by
	// itself. While no new commits arrive, the follower looks half as often. A negative
	// FollowEvery leaves that to DB.Refresh. Default: 10 ms.
	FollowEvery time.Duration

	// FS is the file system of the database. Default: the files of the operating
	// system, vfs.OS. Package vfs/memfs has a file system in memory, and vfs/faultfs
	// one that fails on demand.
	FS vfs.FS

	// Clock tells the time for expiry, and the age of data keys. Default: the clock of
	// the machine.
	Clock Clock

	// Keys supplies the master keys of an encrypted database. A new database becomes
	// encrypted if Keys is set, and stays so. Its files then have neither keys nor
	// values in plain text. An encrypted database opens only with Keys, another one
	// only without; otherwise Open returns ErrKey. Default: nil.
	//
	// Decrypted pages are memory of the process, and stay within MemoryBudget. While the
	// data in use fits, reads take 0.9 to 1.1 times as long as without encryption. The
	// first reads after Open take 2 to 3 times as long. Loads that end with DB.Compact
	// take 1.3 to 1.4 times as long.
	Keys KeyProvider

	// DataKeyAge is the age from which new files get a new data key. A database has at most
	// 20,000 data keys. From then on, new files get the newest of them, and each call of
	// Open reports one Warning. Default: 30 days. Range: 1 second or more.
	DataKeyAge time.Duration

	// Events receives events from the background, one after the other, on a
	// goroutine of the database that holds no lock. A slow callback or logger delays
	// later events. While 4,096 events wait, further ones are lost; Stats.EventsDropped
	// counts them. The callback may use the database. It must not close the
	// database: Close waits for the last event, and so does an Open that fails. No event
	// follows Close, or such an Open.
	Events func(Event)

	// Logger receives each event as a record, most of them at slog.LevelDebug. Default: no
	// logging.
	Logger *slog.Logger
}

// A Clock tells the time for expiry.
type Clock interface {
	// Now returns the time. Several goroutines may call it at the same time. The
	// database stores the latest time that it has seen, and uses no earlier one. So
	// expired values stay expired when the clock goes back. After a jump into the future,
	// values expire early and for good. Until the clock catches up, a TTL counts from the
	// wrong time.
	Now() time.Time
}

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
)

// withDefaults returns a copy of o with every field set, but for the settings, whose
// zero value leaves the stored one alone. o may be nil.
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
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Clock == nil {
		c.Clock = base.SystemClock{}
	}
	if c.FollowEvery == 0 {
		c.FollowEvery = followEveryDefault
	}
	if c.DataKeyAge == 0 {
		c.DataKeyAge = dataKeyAgeDefault
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate returns an error about the first field out of range.
func (o *Options) validate() error {
	if o.Durability != Synced && o.Durability != Buffered {
		return base.Invalid("Options.Durability is %d, want Synced or Buffered", o.Durability)
	}
	if o.MemoryBudget < memoryBudgetMin || o.MemoryBudget > memoryBudgetMax {
		return base.Invalid("Options.MemoryBudget is %d, want %d to %d",
			o.MemoryBudget, int64(memoryBudgetMin), int64(memoryBudgetMax))
	}
	if o.MemtableSize < memtableSizeMin || o.MemtableSize > memtableSizeMax {
		return base.Invalid("Options.MemtableSize is %d, want %d to %d",
			o.MemtableSize, int64(memtableSizeMin), int64(memtableSizeMax))
	}
	if !haveNames(o.MergeFunctions) {
		return base.Invalid("Options.MergeFunctions has a function without a name of its own, or with the name %q", settings.NoName)
	}
	if !haveNames(o.Filters) {
		return base.Invalid("Options.Filters has a filter without a name of its own, or with the name %q", settings.NoName)
	}
	if o.DataKeyAge < dataKeyAgeMin {
		return base.Invalid("Options.DataKeyAge is %v, want %v or more", o.DataKeyAge, dataKeyAgeMin)
	}
	given := o.given()
	return given.Validate("Options")
}

// haveNames reports whether each of the functions or filters has a name of its own.
func haveNames[T interface {
	comparable
	Name() string
}](all []T) bool {
	var none T
	names := map[string]bool{}
	for _, one := range all {
		if one == none || one.Name() == "" || one.Name() == settings.NoName || names[one.Name()] {
			return false
		}
		names[one.Name()] = true
	}
	return true
}

// Compression says how the database compresses values on the disk. With any
// setting, it stores data uncompressed that would not shrink by an eighth.
type Compression uint8

const (
	// CompressionNone stores values as they are. Reads do not copy them.
	CompressionNone Compression = iota + 1
	// CompressionFast takes about a microsecond for each kilobyte, read or written.
	// Text shrinks to a half or less. Warm gets take two to three times as long as
	// without compression, and scans three to ten times.
	CompressionFast
	// CompressionSmall makes values about a quarter smaller than CompressionFast.
	// Values in value files, and values that seldom change, take four times as long
	// to read and ten times as long to write.
	CompressionSmall
)

// String returns "none", "fast" or "small".
func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionFast:
		return "fast"
	case CompressionSmall:
		return "small"
	}
	return fmt.Sprintf("Compression(%d)", uint8(c))
}
