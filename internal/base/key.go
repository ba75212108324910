package base

// Limits on what a user may store.
const (
	// MaxKeySize is the largest key in bytes. The empty key is refused.
	MaxKeySize = 64 << 10
	// MaxValueSize is the largest value in bytes.
	MaxValueSize = 1<<32 - 1
)

// A Kind says what an entry does to its key.
type Kind uint8

// The kinds. The numbers are part of the file formats: never change them.
const (
	// KindDelete hides all older versions of the key.
	KindDelete Kind = 1
	// KindSet gives the key a value.
	KindSet Kind = 2
	// KindPointer gives the key a value that a value file stores. The value of
	// the entry is the pointer to it.
	KindPointer Kind = 3
	// KindDeleteRange is a range tombstone: it hides all older versions of the
	// keys from the entry's key, inclusive, to the entry's value, exclusive. An
	// empty value stands for the end of all keys.
	KindDeleteRange Kind = 4
)

// Known reports whether k is a kind this version of stoat understands.
func (k Kind) Known() bool { return k >= KindDelete && k <= KindDeleteRange }

// HasValue reports whether an entry of kind k gives its key a value.
func (k Kind) HasValue() bool { return k == KindSet || k == KindPointer }

// String returns the name used in scripts and error messages.
func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "DEL"
	case KindSet:
		return "SET"
	case KindPointer:
		return "PTR"
	case KindDeleteRange:
		return "DELRANGE"
	}
	return "UNKNOWN"
}

// Meta is what an entry carries in addition to its key and value.
type Meta struct {
	// ExpiresAt is the time from which the entry counts as deleted, in
	// milliseconds of Unix time. 0 means never.
	ExpiresAt uint64
	Kind      Kind
	// User is the byte that the user attached to the entry.
	User byte
}

// Live reports whether an entry with metadata m has a value at nowMs.
func (m Meta) Live(nowMs uint64) bool {
	return m.Kind.HasValue() && (m.ExpiresAt == 0 || nowMs < m.ExpiresAt)
}

// An Entry is one version of one key. Key and Value are borrowed from the source
// of the entry.
type Entry struct {
	Key   []byte
	Value []byte
	Seq   SeqNum
	Meta  Meta
}
