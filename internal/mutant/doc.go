// Package mutant removes single guarantees of stoat on request, so that the
// tests that claim to hold a guarantee can be shown to fail without it.
//
// A place in the engine that upholds a guarantee asks On(name) and skips its
// work when the answer is yes:
//
//	if !mutant.On(mutant.NoSync) {
//		err = f.SyncData()
//	}
//
// Without the build tag "mutants" On is the constant false and the compiler
// drops the question, the name and the branch. With the tag, a test enables
// one name at a time and demands that its harness notices.
package mutant

// A Name is one seeded bug.
type Name string

// The seeded bugs. Each comment says what the engine stops doing.
const (
	// SkipPointCheck: commit does not validate point reads of present keys
	// or absent ones.
	SkipPointCheck Name = "skip-point-check"
	// SkipAbsentCheck: a read that found nothing is not recorded.
	SkipAbsentCheck Name = "skip-absent-check"
	// SkipRangeCheck: commit does not validate ranges iterated over.
	SkipRangeCheck Name = "skip-range-check"
	// SkipPhantomTail: a range ends at the last key an iterator showed,
	// although the iterator looked beyond it and found nothing.
	SkipPhantomTail Name = "skip-phantom-tail"
	// SkipPhantomHead: a range begins at the first key an iterator showed,
	// although the iterator looked for keys before it.
	SkipPhantomHead Name = "skip-phantom-head"
	// KeyOnlyUnread: an iterator whose items are not read records no range.
	KeyOnlyUnread Name = "key-only-unread"
	// SkipGroupCheck: a transaction is not validated against those in the
	// same commit group that come before it.
	SkipGroupCheck Name = "skip-group-check"
	// SkipDeleteCheck: validation does not see deletions by others.
	SkipDeleteCheck Name = "skip-delete-check"

	// EarlyPublish: a commit becomes visible before its entries are all in
	// the memtable.
	EarlyPublish Name = "early-publish"
	// LatePublish: a commit is acknowledged before it is visible.
	LatePublish Name = "late-publish"
	// SnapshotOffByOne: a snapshot sees one commit more than it says.
	SnapshotOffByOne Name = "snapshot-off-by-one"
	// StaleReadVersion: a snapshot is taken one commit before the newest
	// visible one.
	StaleReadVersion Name = "stale-read-version"
	// ValidateOffByOne: validation ignores the first commit after the
	// snapshot.
	ValidateOffByOne Name = "validate-off-by-one"
	// IgnoreDeletes: reads do not see deletions in the newest memtable.
	IgnoreDeletes Name = "ignore-deletes"
	// IgnoreOwnWrites: reads do not see the transaction's own writes.
	IgnoreOwnWrites Name = "ignore-own-writes"
	// ExpiryOffByOne: an entry lives one millisecond too long.
	ExpiryOffByOne Name = "expiry-off-by-one"

	// NoSync: a synced commit is acknowledged without a sync.
	NoSync Name = "no-sync"
	// NoDirSync: a directory is not synced after its entries changed.
	NoDirSync Name = "no-dir-sync"
	// NoRotationSync: a full segment is not synced before its successor
	// receives its first frame.
	NoRotationSync Name = "no-rotation-sync"
	// NoHeaderSync: a segment's header is not durable before the segment is
	// used.
	NoHeaderSync Name = "no-header-sync"
	// NoManifestSync: a manifest edit is acknowledged without a sync.
	NoManifestSync Name = "no-manifest-sync"
	// NoCloseSync: Close does not sync what was buffered.
	NoCloseSync Name = "no-close-sync"
	// NoSyncCall: DB.Sync returns without a sync.
	NoSyncCall Name = "no-sync-call"
	// NoSeal: recovery does not record where the old log ended.
	NoSeal Name = "no-seal"
	// RetrySync: a failed sync is tried again and then believed.
	RetrySync Name = "retry-sync"
	// NoPoison: commits go on after a failed write or sync.
	NoPoison Name = "no-poison"

	// NoChecksum: the checksum of a frame is not compared.
	NoChecksum Name = "no-checksum"
	// ReplayPastBad: recovery skips a bad frame and goes on behind it.
	ReplayPastBad Name = "replay-past-bad"
	// IgnoreSalt: frames of a segment's earlier life are accepted.
	IgnoreSalt Name = "ignore-salt"
	// IgnoreChain: a frame need not follow the one before it.
	IgnoreChain Name = "ignore-chain"
	// IgnoreDurableMark: rot in what was durable is taken for a torn tail.
	IgnoreDurableMark Name = "ignore-durable-mark"
	// PartialTxn: recovery applies the first frames of a transaction whose
	// last frame is missing.
	PartialTxn Name = "partial-txn"
	// DropLast: recovery drops the last transaction of the log.
	DropLast Name = "drop-last"
	// EarlyRecycle: a segment is freed while the memtable it backs is live.
	EarlyRecycle Name = "early-recycle"

	// NoLock: Open does not take the directory's lock.
	NoLock Name = "no-lock"
)

// Names lists every seeded bug, in the order above.
var Names = []Name{
	SkipPointCheck, SkipAbsentCheck, SkipRangeCheck, SkipPhantomTail, SkipPhantomHead,
	KeyOnlyUnread, SkipGroupCheck, SkipDeleteCheck,
	EarlyPublish, LatePublish, SnapshotOffByOne, StaleReadVersion, ValidateOffByOne,
	IgnoreDeletes, IgnoreOwnWrites, ExpiryOffByOne,
	NoSync, NoDirSync, NoRotationSync, NoHeaderSync, NoManifestSync, NoCloseSync,
	NoSyncCall, NoSeal, RetrySync, NoPoison,
	NoChecksum, ReplayPastBad, IgnoreSalt, IgnoreChain, IgnoreDurableMark,
	PartialTxn, DropLast, EarlyRecycle, NoLock,
}
