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
	// SkipPointCheck: point reads are not recorded.
	SkipPointCheck Name = "skip-point-check"
	// SkipRangeCheck: ranges iterated over are not recorded.
	SkipRangeCheck Name = "skip-range-check"
	// SkipPhantomTail: a range ends at the last key an iterator showed,
	// although it looked beyond that and found nothing.
	SkipPhantomTail Name = "skip-phantom-tail"
	// KeyOnlyUnread: an iterator over keys only records no range.
	KeyOnlyUnread Name = "key-only-unread"
	// SkipGroupCheck: a transaction is not validated again by the leader of
	// its group, against those that came in between.
	SkipGroupCheck Name = "skip-group-check"
	// ValidateOffByOne: validation does not see the first commit after the
	// snapshot.
	ValidateOffByOne Name = "validate-off-by-one"

	// EarlyPublish: a commit is visible before it is in the memtable.
	EarlyPublish Name = "early-publish"
	// LatePublish: a commit is acknowledged before it is visible.
	LatePublish Name = "late-publish"
	// SnapshotOffByOne: a snapshot is one commit too new.
	SnapshotOffByOne Name = "snapshot-off-by-one"
	// StaleReadVersion: a snapshot is one commit too old.
	StaleReadVersion Name = "stale-read-version"
	// IgnoreOwnWrites: point reads do not see the transaction's own writes.
	IgnoreOwnWrites Name = "ignore-own-writes"
	// ExpiryOffByOne: a point read shows an entry a millisecond too long.
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
	// RetrySync: a failed sync is tried again and then believed.
	RetrySync Name = "retry-sync"
	// NoPoison: commits go on after a failed write or sync.
	NoPoison Name = "no-poison"

	// NoChecksum: the checksum of a frame is not compared.
	NoChecksum Name = "no-checksum"
	// IgnoreSalt: frames of a file's earlier life are accepted.
	IgnoreSalt Name = "ignore-salt"
	// IgnoreDurableMark: rot in what was durable is taken for a torn tail.
	IgnoreDurableMark Name = "ignore-durable-mark"
	// NoMark: the log does not say how far it is durable when nobody commits.
	NoMark Name = "no-mark"
	// PartialTxn: recovery takes a transaction without its last frame.
	PartialTxn Name = "partial-txn"
	// NoCarry: recovery does not write the unproven end of the log again.
	NoCarry Name = "no-carry"
	// NoCarrySync: what was carried is not synced before it is relied on.
	NoCarrySync Name = "no-carry-sync"
	// IgnoreSeal: a log that ends before its seal is accepted.
	IgnoreSeal Name = "ignore-seal"
	// IgnoreUnreferenced: segments in use that nothing refers to are taken
	// for garbage.
	IgnoreUnreferenced Name = "ignore-unreferenced"

	// NoBarrier: memtables that were flushed and files that were replaced are
	// given back although somebody still reads them.
	NoBarrier Name = "no-barrier"
	// UnconfirmedView: a reader tells which view it reads, and does not look
	// whether that was too late.
	UnconfirmedView Name = "unconfirmed-view"
	// UntoldState: who looks at a state of the manifest tells nobody before it
	// has been loaded.
	UntoldState Name = "untold-state"
	// EarlyRelease: the log is released before the manifest says so.
	EarlyRelease Name = "early-release"
	// DropDeletions: deletions are dropped above the bottom of the tree.
	DropDeletions Name = "drop-deletions"
	// NoTableDirSync: the manifest names tables whose names are not durable.
	NoTableDirSync Name = "no-table-dir-sync"
	// FlushedTooFar: the manifest says that one commit more is in tables.
	FlushedTooFar Name = "flushed-too-far"
	// SwallowFlushError: memtables are given up although their tables could
	// not be written.
	SwallowFlushError Name = "swallow-flush-error"
	// LiveOrphan: Open deletes tables that are in use.
	LiveOrphan Name = "live-orphan"

	// WriteBack: a collection writes values that were live when it began back
	// through the write path.
	WriteBack Name = "write-back"
	// ForgetSnapshots: flushes and merges drop versions that only older
	// snapshots need.
	ForgetSnapshots Name = "forget-snapshots"
	// FlushUnpublished: a flush takes what is not visible yet for the newest
	// that anybody sees.
	FlushUnpublished Name = "flush-unpublished"
	// CollectHeld: a collection takes value files that memtables, or
	// transactions under way, refer to.
	CollectHeld Name = "collect-held"
	// EarlyDiscard: tables are given up before the manifest and the view have
	// lost them.
	EarlyDiscard Name = "early-discard"
)

// Names lists every seeded bug, in the order above.
var Names = []Name{
	SkipPointCheck, SkipRangeCheck, SkipPhantomTail, KeyOnlyUnread, SkipGroupCheck, ValidateOffByOne,
	EarlyPublish, LatePublish, SnapshotOffByOne, StaleReadVersion, IgnoreOwnWrites, ExpiryOffByOne,
	NoSync, NoDirSync, NoRotationSync, NoHeaderSync, NoManifestSync, RetrySync, NoPoison,
	NoChecksum, IgnoreSalt, IgnoreDurableMark, NoMark,
	PartialTxn, NoCarry, NoCarrySync, IgnoreSeal, IgnoreUnreferenced,
	NoBarrier, UnconfirmedView, UntoldState, EarlyRelease, DropDeletions, NoTableDirSync,
	FlushedTooFar, SwallowFlushError, LiveOrphan,
	WriteBack, ForgetSnapshots, FlushUnpublished, CollectHeld, EarlyDiscard,
}
