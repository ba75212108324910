package stores

// A Store is one open database. Apply, NewReader and Sync, and what readers do,
// may be called by any number of goroutines at once, while nobody calls Collect.
type Store interface {
	// Apply writes the operations of b in their order, and returns when they
	// are as durable as Config.Sync asks for. The store must not keep the
	// batch's bytes after it returns.
	Apply(b *Batch) error

	// NewReader returns a reader for the use of one goroutine at a time.
	NewReader() (Reader, error)

	// Collect makes the calls by which the store's documentation tells its
	// users to get back the space of overwritten and deleted values. It does
	// nothing where the store needs or offers no such call.
	Collect() error

	// Sync makes everything applied so far durable.
	Sync() error

	// Stats is what the store tells of itself, as text for the record.
	Stats() string

	// Close closes the store. All readers are closed before.
	Close() error
}

// A Reader reads the newest applied state; every call takes a snapshot of its
// own, as independent queries do.
type Reader interface {
	// Get calls fn with the value of key and returns true, or returns false
	// if there is none. The value is borrowed until fn returns.
	Get(key []byte, fn func(value []byte) error) (bool, error)

	// Scan calls fn with the entries from o.From on, in ascending order of
	// the keys. Both slices are borrowed until fn returns; the value is nil
	// if o.KeysOnly.
	Scan(o ScanOptions, fn func(key, value []byte) error) error

	Close() error
}

// ScanOptions say what a scan visits.
type ScanOptions struct {
	From     []byte // the first key visited, if there; nil for the first of all
	Limit    int    // entries to visit; 0 for all
	KeysOnly bool   // the values are not wanted
}

// Config is what a workload asks of the store it opens.
type Config struct {
	// Dir exists. It is empty or holds what an earlier open left there.
	Dir string

	// Sync asks for a device sync before Apply returns.
	Sync bool

	// CacheBytes and MemtableBytes size the block cache and the write buffer
	// of the stores that have them.
	CacheBytes    int64
	MemtableBytes int64

	// Writers is how many goroutines will call Apply at once, for the stores
	// that want to know.
	Writers int

	// Cold says that the data will not be in memory when it is read.
	Cold bool
}

// The sizes of caches and write buffers when nothing limits memory.
const (
	CacheBytesDefault    = 512 << 20
	MemtableBytesDefault = 64 << 20
)

// MemtableBytesMin is the smallest write buffer that all stores accept: a
// value below Badger's threshold of 1 MiB must fit into a transaction, which
// may take 15 % of it.
const MemtableBytesMin = 8 << 20

// Info describes a store before it is opened.
type Info struct {
	Name    string
	Version string

	// Options states in one line how the store is configured.
	Options string

	// SmallestValue is, for a variant that stores large values apart, the
	// size in bytes from which it differs from the plain store. Smaller
	// values are not worth a run of their own.
	SmallestValue int

	// TextOnly marks a variant that compresses, of a store that does not:
	// only on values that compress does it have figures of its own.
	TextOnly bool

	// Open is nil if the store is not in this program; Missing then says how
	// to build it in.
	Open    func(Config) (Store, error)
	Missing string
}

// All lists every store in the order of the reports.
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

// Find returns the store of that name.
func Find(name string) (Info, bool) {
	for _, info := range All() {
		if info.Name == name {
			return info, true
		}
	}
	return Info{}, false
}
