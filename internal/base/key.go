package base

// Limits on what a user may store.
const (
	// UserKeyMax is the largest key of a user in bytes. The empty key is refused.
	UserKeyMax = 64 << 10
	// MaxKeySize is the largest stored key in bytes. What a stored key holds beside
	// the user's key, such as the prefix of its keyspace, takes at most 64 bytes.
	MaxKeySize = UserKeyMax + 64
	// MaxValueSize is the largest value in bytes.
	MaxValueSize = 1<<32 - 1
	// MaxOperandSize is the largest operand of a merge in bytes.
	MaxOperandSize = 64 << 10
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
	// KindMerge is a partial entry: operands of the key's merge function, and
	// perhaps renewals. Package partial describes its value.
	KindMerge Kind = 5
	// KindRenew is a partial entry of renewals alone: new expiry times.
	KindRenew Kind = 6
	// KindStampDelete is a version of a key with timestamps: from its timestamp on,
	// the key has no value. The engine treats it as a value without bytes, because
	// older versions of the user's key have stored keys of their own.
	KindStampDelete Kind = 7
)

// Known reports whether k is a kind this version of stoat understands.
func (k Kind) Known() bool { return k >= KindDelete && k <= KindStampDelete }

// HasValue reports whether an entry of kind k gives its key a value.
func (k Kind) HasValue() bool { return k == KindSet || k == KindPointer || k == KindStampDelete }

// Partial reports whether an entry of kind k says only a part of what its key has,
// and refers to the next older version.
func (k Kind) Partial() bool { return k == KindMerge || k == KindRenew }

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
	case KindMerge:
		return "MERGE"
	case KindRenew:
		return "RENEW"
	case KindStampDelete:
		return "STAMPDEL"
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
