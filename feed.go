package stoat

import (
	"context"
	"iter"

	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/work"
)

// Subscribe returns the commits after a version, in their order, each once and whole. Once
// the loop has them all, it waits for the next commit. It ends with an error. This is the
// error of ctx, ErrClosed, ErrInvalid for a version that the database does not have yet, or
// *feed.GoneError. It is ErrCorrupt for a damaged log, and ErrStale for a follower that
// cannot follow any more. A database opened with Options.ReadOnly has no feed: ErrReadOnly.
// Once commits return ErrFailed, so does the loop, after what it can still deliver. A follower
// does not learn of the failure.
//
// A program stores Commit.Version together with what it made of the commit, and passes
// it as feed.Options.After when it starts again. It then misses no commit, and gets none
// twice. To begin with a copy of the database, it makes the copy in one transaction, calls
// DB.Sync, and passes Txn.ReadVersion. Without the Sync, a power cut may take buffered commits
// that the copy has, and other commits then get their versions.
//
// Versions belong to one database. A database that was restored, or that is a copy, gives
// later versions to other commits than the original. Its consumers begin anew with a copy.
//
// The feed reads the log. A loop never delays a commit, however slow it is. The log has
// all commits that are not flushed yet. It also keeps Options.ChangeRetention bytes of
// older commits, or MemtableSize bytes during a loop if that is more. A loop that needs an
// older commit ends with *feed.GoneError. So does each loop that comes to an ingest: the log
// does not have what DB.Ingest and DB.BulkLoad write.
//
// A follower has the same feed, for programs in other processes. It looks for commits every
// Options.FollowEvery, or every 10 ms if that is negative. Unless feed.Options.Buffered is
// set, it syncs the log before it delivers. A loop begins by reading all of the log that is
// kept. The writer does not know of the feed, so the log keeps no more for it than
// ChangeRetention.
//
// A value of a feed.Change may lie in a mapped file. If the device is lost, a read of it is a
// memory fault, as with a transaction of Begin.
//
// A feed has what transactions wrote. Expiry, compaction filters and
// Keyspace.DiscardBelow make no changes. If a keyspace was dropped later, the feed leaves out
// its changes. It delivers a DropKeyspace in place of the first of them, and again with the
// commit that dropped the keyspace.
func (d *DB) Subscribe(ctx context.Context, o feed.Options) iter.Seq2[feed.Commit, error] {
	return d.engine.Changes.Subscribe(work.Given(ctx), o)
}
