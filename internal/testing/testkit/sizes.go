package testkit

// StreamedFrom is the length in bytes from which a value given as a reader gets its own
// file. It applies to a database with SmallMemtable.
const StreamedFrom = SmallMemtable / 4

// Sizes of memtables, in bytes. Databases with the small one flush and merge all the
// time; those with the large one keep a test in memory.
const (
	SmallMemtable = 64 << 10
	LargeMemtable = 64 << 20
)

// SmallBudget is the least memory budget, in bytes. Encrypted databases with it soon keep
// no more decrypted pages.
const SmallBudget = 1 << 20
