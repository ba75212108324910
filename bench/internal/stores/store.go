package stores

import "runtime"

// A Store is one open database. Goroutines may call Apply, NewReader, Sync and
// the methods of readers concurrently. Collect must run alone.
type Store interface {
	// Apply writes the operations of b in order, and returns when they are as
	// durable as Config.Sync requires. The store must not keep the batch's
	// bytes after Apply returns.
	Apply(b *Batch) error

	// NewReader returns a reader for one goroutine at a time.
	NewReader() (Reader, error)

	// Collect makes the calls that the store documents for reclaiming the space
	// of overwritten and deleted values. It does nothing if the store needs or
	// offers no such call.
	Collect() error

	// Sync makes all applied batches durable.
	Sync() error

	// Stats returns the store's own statistics as text.
	Stats() string

	// Close closes the store. The caller has closed all readers.
	Close() error
}

// A Reader reads the newest applied state. Every call is an independent query
// with its own snapshot.
type Reader interface {
	// Get calls fn with the value of key and returns true. It returns false if
	// the key does not exist. The value is borrowed until fn returns.
	Get(key []byte, fn func(value []byte) error) (bool, error)

	// Scan calls fn with the entries at or after o.From, in ascending order of
	// the keys. Both slices are borrowed until fn returns. The value is nil if
	// o.KeysOnly.
	Scan(o ScanOptions, fn func(key, value []byte) error) error

	Close() error
}

// A Ranger is a reader of a store that offers a loop over all entries beside its
// iterator.
type Ranger interface {
	// ScanRange calls fn with all entries, in ascending order of the keys.
	ScanRange(fn func(key, value []byte) error) error
}

// A Transactor is a store with transactions that read and write.
type Transactor interface {
	// Transact runs fn in a transaction, which it commits as durably as
	// Config.Sync requires. It runs fn again as often as the store reports a
	// conflict, and returns how often that was. Goroutines may call it
	// concurrently.
	Transact(fn func(tx Txn) error) (conflicts int, err error)
}

// A Txn is a transaction that reads and writes.
type Txn interface {
	// Get returns the value of key, which is borrowed until the next call. It
	// is nil if the key does not exist.
	Get(key []byte) ([]byte, error)

	// First calls fn with the first entry, or with nil if there is none. Both
	// slices are borrowed until fn returns.
	First(fn func(key, value []byte) error) error

	Set(key, value []byte) error
	Delete(key []byte) error
}

// ScanOptions select the entries of a scan.
type ScanOptions struct {
	From     []byte // the scan begins at the first key >= From; nil means the first key
	Limit    int    // the most entries; 0 means all
	KeysOnly bool   // the scan needs no values
}

// Config is the configuration that a workload requires of a store.
type Config struct {
	// Dir is an existing directory: empty, or with the database of an earlier
	// open.
	Dir string

	// Sync requires a device sync before Apply returns.
	Sync bool

	// Unsynced says that the workload writes, and needs no syncs while it does.
	Unsynced bool

	// CacheBytes and MemtableBytes size the block cache and the write buffer
	// of the stores that have them.
	CacheBytes    int64
	MemtableBytes int64

	// Writers is the number of goroutines that call Apply concurrently, or that read
	// if the workload writes nothing. Some stores use it as a hint.
	Writers int

	// Beside says that other goroutines read beside the writers.
	Beside bool

	// Ascending says that one goroutine writes, and each key is above all before it.
	Ascending bool

	// Cold says that reads will find most data outside of memory.
	Cold bool

	// Scans says that one goroutine reads all entries once, and nothing is written.
	Scans bool

	// LimitedMemory says that the data may exceed the memory of the process.
	LimitedMemory bool
}

// manyProcessors is GOMAXPROCS of peers whose goroutines wait. Badger's documentation names
// 128.
const manyProcessors = 128

// raiseProcessors gives waiting goroutines Go processors, from the open to the end of the
// process. A read that waits keeps its processor, in a page fault for its whole time, and in
// a call into C or of the system until the scheduler notices. So 16 goroutines on two
// processors do not have 16 calls in progress, as 16 threads of C have.
func raiseProcessors() { runtime.GOMAXPROCS(manyProcessors) }

// raiseIfCold calls raiseProcessors if most reads go to the device. Stores in Go wait in
// other workloads as well, but most goroutines for locks and channels, which keep no processor.
func (c Config) raiseIfCold() {
	if c.Cold {
		raiseProcessors()
	}
}

// raiseIfMany calls raiseProcessors for a store in C if several goroutines call it, or if it is
// cold. They wait in C: for a lock, for the group of a commit, or for its sync.
func (c Config) raiseIfMany() {
	if c.Cold || c.Beside || c.Writers > 1 {
		raiseProcessors()
	}
}

// The sizes in bytes of caches and write buffers without a memory limit. The cache holds all
// data that is read warm, up to 1,036 MB, except growing data. Stores without a cache of their
// own have all of the page cache.
const (
	CacheBytesDefault    = 2 << 30
	MemtableBytesDefault = 64 << 20
)

// MemtableBytesMin is the size in bytes of the smallest write buffer that all
// stores accept. In Badger a value below its threshold of 1 MiB must fit into a
// transaction, which may take 15 % of the buffer.
const MemtableBytesMin = 8 << 20

// Info describes a store before it is opened.
type Info struct {
	Name    string
	Version string

	// Options states in one line how the store is configured.
	Options string

	// SmallestValue is the size in bytes from which a variant separates values.
	// Datasets with smaller values skip the variant, which would equal the plain
	// store.
	SmallestValue int

	// TextOnly marks a variant that differs from the plain store only by
	// compression. It runs only on values that compress.
	TextOnly bool

	// Unfollowed says why the comparison measures no follower of a store that has them.
	Unfollowed string

	// Open is nil if this program was built without the store. Missing then
	// says how to include it.
	Open    func(Config) (Store, error)
	Missing string
}

// All lists every store of the comparison in the order of the reports.
func All() []Info {
	return []Info{
		stoatInfo(), stoatFastInfo(),
		badgerInfo(), badgerWisckeyInfo(),
		pebbleInfo(), pebbleBlobInfo(),
		bboltInfo(),
		lmdbInfo(),
		rocksdbInfo(), rocksdbBlobInfo(),
		goleveldbInfo(),
	}
}

// Variants lists the stores that are no part of the comparison. The guard compares
// each with its plain store.
func Variants() []Info { return []Info{stoatEncryptedInfo()} }

// Find returns the store with the given name, which may be a variant.
func Find(name string) (Info, bool) {
	for _, info := range append(All(), Variants()...) {
		if info.Name == name {
			return info, true
		}
	}
	return Info{}, false
}
