// Package feed has the types of change feeds: the commits of a database, in their order,
// each once and whole. Method Subscribe of stoat.DB returns a feed.
package feed

import (
	"fmt"
	"iter"
	"time"
)

// Options say which changes a feed has. The zero value means all changes.
type Options struct {
	// After is the version after which the feed begins. 0 means from the first commit. To
	// begin with the next commit, pass Stats.Version of package stoat. After is a version of
	// this database: a restored database gives the versions after its backup to other commits
	// than the original.
	After uint64
	// Keyspaces are the names of the keyspaces whose changes the feed has. An empty name
	// is the default keyspace. nil means all keyspaces. A DropKeyspace without a name is
	// in every feed.
	Keyspaces []string
	// Prefix is what the keys of the changes begin with. A range deletion is in the feed
	// if its range may have such keys, and a DropKeyspace always is.
	Prefix []byte
	// Buffered delivers buffered commits at once. A power cut may take such a commit
	// back, and another commit then gets its version. Without Buffered, the feed syncs
	// the log before it delivers a commit that may not be durable. A follower
	// does not know that a sync of the writer has failed. Its feed may then deliver commits
	// that a power cut takes back.
	Buffered bool
}

// A Commit is one transaction in a feed. It is valid until the loop over the feed
// continues.
type Commit struct {
	// Version is the version that the transaction wrote, as Txn.CommitVersion returns it.
	Version uint64
	// Time is the time of the commit. It never falls from one commit to the next.
	Time time.Time
	// Changes loops over what the transaction wrote, as far as the feed has it. Range
	// deletions come first: they delete nothing that the same transaction wrote and kept.
	// Then each key comes once, or several times with its merges and renewals in their
	// order. A loop that ends with an error has not shown all changes. Only one loop over
	// the changes may run at a time.
	//
	// A commit without changes says only how far the feed is. A feed with a Prefix or
	// with Keyspaces delivers one now and then.
	Changes iter.Seq2[Change, error]
}

// A Kind says what a change does.
type Kind uint8

const (
	// Set gives the key a value.
	Set Kind = iota + 1
	// Delete deletes the key.
	Delete
	// DeleteRange deletes the keys from Key up to End.
	DeleteRange
	// Merge merges Value, an operand, into the value of the key.
	Merge
	// Renew gives the value of the key, if it has one, another expiry time.
	Renew
	// DropKeyspace says that the keyspace with KeyspaceID exists no more, nor do its keys.
	DropKeyspace
)

// String returns the name of the constant.
func (k Kind) String() string {
	switch k {
	case Set:
		return "Set"
	case Delete:
		return "Delete"
	case DeleteRange:
		return "DeleteRange"
	case Merge:
		return "Merge"
	case Renew:
		return "Renew"
	case DropKeyspace:
		return "DropKeyspace"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// A Change is the change of a key, or the deletion of a range. Its bytes are valid until
// the loop over the changes continues.
type Change struct {
	// Kind says what the change does.
	Kind Kind
	// Keyspace is the name of the keyspace, empty for the default keyspace. A DropKeyspace
	// may have no name, once the database has forgotten it.
	Keyspace string
	// KeyspaceID is KeyspaceInfo.ID of the keyspace. No later keyspace gets the ID, even
	// with the same name.
	KeyspaceID uint32
	// Key is the key. It is empty for a range from the first key of the keyspace.
	Key []byte
	// End is the exclusive end of a range. It is nil for a range up to the last key of
	// the keyspace.
	End []byte
	// Value is the value of a Set, or the operand of a Merge.
	Value []byte
	// ExpiresAt is when the value of a Set or a Renew expires, or the zero time if it
	// never does.
	ExpiresAt time.Time
	// UserMeta is the byte that the caller attached to the value of a Set, or 0.
	UserMeta byte
	// Timestamp is the timestamp of a Set or a Delete in a keyspace with timestamps.
	Timestamp uint64
}

// A GoneError says that the database no longer has the commit that the feed needs next.
// The program then copies the database in a read-only transaction, calls DB.Sync, and
// subscribes after the ReadVersion of that transaction.
type GoneError struct {
	// After is the version up to which the feed got. It is Options.After if the feed
	// delivered nothing.
	After uint64
	// Oldest is an Options.After with which a feed can begin now.
	Oldest uint64
}

// Error describes the error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("stoat: the changes after version %d are gone; a feed can begin after version %d", e.After, e.Oldest)
}
