// Package mutant removes single guarantees of stoat on request. With it, a test
// that claims to check a guarantee can show that it fails without the guarantee.
//
// A place in the engine that upholds a guarantee calls On(name), and skips its
// work if the answer is true:
//
//	if !mutant.On(mutant.NoSync) {
//		err = f.SyncData()
//	}
//
// Without the build tag "mutants", On is the constant false, and the compiler
// drops the call, the name and the branch. With the tag, a test enables one name
// at a time and demands that its harness notices.
package mutant

// A Name is one seeded bug.
type Name string

// The seeded bugs. Each comment says what the engine stops doing.
const (
	// SkipPointCheck: point reads are not recorded.
	SkipPointCheck Name = "skip-point-check"
	// SkipRangeCheck: ranges iterated over are not recorded.
	SkipRangeCheck Name = "skip-range-check"
	// SkipPhantomTail: a range ends at the last key that an iterator showed,
	// although the iterator looked beyond it and found nothing.
	SkipPhantomTail Name = "skip-phantom-tail"
	// SkipTurnedRange: what an iterator passed over before it turned back is not recorded.
	SkipTurnedRange Name = "skip-turned-range"
	// KeyOnlyUnread: an iterator over keys only records no range.
	KeyOnlyUnread Name = "key-only-unread"
	// SkipGroupCheck: the leader of a commit group does not validate its members
	// against commits since their own validation.
	SkipGroupCheck Name = "skip-group-check"
	// ValidateOffByOne: validation misses the first commit after the snapshot.
	ValidateOffByOne Name = "validate-off-by-one"

	// StampUpright: timestamps in keys are not complemented, so the earliest version
	// of a key comes first.
	StampUpright Name = "stamp-upright"
	// StampReadsPast: a version at the very timestamp of a read does not conflict with
	// it.
	StampReadsPast Name = "stamp-reads-past"
	// StampPurgeUnread: a purge of keys does not conflict with reads of them at a
	// timestamp.
	StampPurgeUnread Name = "stamp-purge-unread"
	// StampTablesUnread: versions in tables do not conflict with reads at a timestamp.
	StampTablesUnread Name = "stamp-tables-unread"
	// StampDropNewest: a compaction drops the latest version up to the discard point.
	StampDropNewest Name = "stamp-drop-newest"
	// StampDropDeletion: a compaction drops a deletion up to the discard point although
	// older versions may be elsewhere.
	StampDropDeletion Name = "stamp-drop-deletion"
	// StampWriteDiscarded: a commit may write below the discard point.
	StampWriteDiscarded Name = "stamp-write-discarded"

	// FeedSkip: a feed leaves a commit out now and then.
	FeedSkip Name = "feed-skip"
	// FeedTwice: a feed begins with the commit that it was told to begin after.
	FeedTwice Name = "feed-twice"
	// FeedHalf: a feed leaves out the last change of a commit.
	FeedHalf Name = "feed-half"
	// FeedNoRanges: a feed leaves range deletions out.
	FeedNoRanges Name = "feed-no-ranges"
	// FeedNoDrops: a feed leaves out the drops of keyspaces.
	FeedNoDrops Name = "feed-no-drops"
	// FeedRangeBefore: a feed with a prefix leaves out range deletions that begin before the
	// prefix.
	FeedRangeBefore Name = "feed-range-before"
	// FeedForeignRange: a feed has range deletions of keyspaces that its filter leaves out.
	FeedForeignRange Name = "feed-foreign-range"
	// FeedNoPrefix: a feed of one keyspace takes all keys of it, whatever its prefix is.
	FeedNoPrefix Name = "feed-no-prefix"
	// FeedGap: a feed passes over commits that the log does not have.
	FeedGap Name = "feed-gap"
	// FeedForget: a flush keeps nothing of the log for feeds.
	FeedForget Name = "feed-forget"
	// FeedLoseValues: value files are collected although commits in the log need them.
	FeedLoseValues Name = "feed-lose-values"
	// FeedUnsynced: a feed delivers commits that are not durable.
	FeedUnsynced Name = "feed-unsynced"
	// FeedFollowsUnsynced: the feed of a follower delivers commits that are not durable.
	FeedFollowsUnsynced Name = "feed-follows-unsynced"
	// FeedFollowsGap: the feed of a follower passes over commits that the log lacks.
	FeedFollowsGap Name = "feed-follows-gap"
	// FeedFollowsValues: the feed of a follower believes that all value files are there.
	FeedFollowsValues Name = "feed-follows-values"
	// FeedUnsyncedFlush: a flush does not sync the log that is kept for feeds.
	FeedUnsyncedFlush Name = "feed-unsynced-flush"

	// EarlyPublish: a commit is visible before it is in the memtable.
	EarlyPublish Name = "early-publish"
	// EarlyResult: a retried update returns what it has read before that is visible.
	EarlyResult Name = "early-result"
	// EarlyRead: a read-only transaction reads what is not visible.
	EarlyRead Name = "early-read"
	// EarlyUnchecked: an update that has its turn is not validated.
	EarlyUnchecked Name = "early-unchecked"
	// EarlyOutlives: an update that only reads succeeds although the commit that it has
	// read fails.
	EarlyOutlives Name = "early-outlives"
	// LatePublish: a commit is acknowledged before it is visible.
	LatePublish Name = "late-publish"
	// SnapshotOffByOne: a snapshot is one commit too new.
	SnapshotOffByOne Name = "snapshot-off-by-one"
	// StaleReadVersion: a snapshot is one commit too old.
	StaleReadVersion Name = "stale-read-version"
	// ExpiredBegins: a snapshot that has reached its greatest age begins transactions.
	ExpiredBegins Name = "expired-begins"
	// ExpiredReadsOn: transactions under way read on when their snapshot reaches its
	// greatest age.
	ExpiredReadsOn Name = "expired-reads-on"
	// ExpiredHolds: the last transaction of a snapshot that has reached its greatest age
	// does not release it.
	ExpiredHolds Name = "expired-holds"
	// IgnoreOwnWrites: point reads do not see the transaction's own writes.
	IgnoreOwnWrites Name = "ignore-own-writes"
	// OperandsReversed: a reader merges operands the newest first.
	OperandsReversed Name = "operands-reversed"
	// RenewExpired: a renewal, or an operand, finds a value that has expired.
	RenewExpired Name = "renew-expired"
	// FoldAcrossSnapshot: a merge folds partial entries with what an older snapshot
	// sees.
	FoldAcrossSnapshot Name = "fold-across-snapshot"
	// LoseUnregistered: a merge drops operands whose function is not registered.
	LoseUnregistered Name = "lose-unregistered"
	// DropNeededBase: a merge drops an expired value although a newer partial entry
	// of the key needs it.
	DropNeededBase Name = "drop-needed-base"
	// FilterUncovers: a value that a filter drops leaves no tombstone.
	FilterUncovers Name = "filter-uncovers"
	// FilterLosesMeta: a value that a filter rewrites loses its expiry time and the
	// user's byte.
	FilterLosesMeta Name = "filter-loses-meta"
	// CombineReversed: operands that become one are combined the newest first.
	CombineReversed Name = "combine-reversed"
	// CombineLosesOne: operands that become one leave out the newest.
	CombineLosesOne Name = "combine-loses-one"
	// JoinLosesOne: a merge that joins partial entries leaves out the oldest.
	JoinLosesOne Name = "join-loses-one"
	// ForgetDefaultTTL: a value without an expiry time of its own never expires.
	ForgetDefaultTTL Name = "forget-default-ttl"
	// FoldVisible: a commit folds an operand onto what readers see, and loses the
	// operands of commits that are not visible yet.
	FoldVisible Name = "fold-visible"
	// StaleSteps: operands and renewals bear the time at which the transaction wrote them.
	StaleSteps Name = "stale-steps"
	// FoldTwice: a commit that folds an operand counts it twice.
	FoldTwice Name = "fold-twice"
	// BlindOwnMerge: a merge in a transaction forgets the operands before it.
	BlindOwnMerge Name = "blind-own-merge"
	// ExpiryOffByOne: a point read shows an entry a millisecond too long.
	ExpiryOffByOne Name = "expiry-off-by-one"

	// NoSync: a synced commit is acknowledged without a sync.
	NoSync Name = "no-sync"
	// NoDirSync: a directory is not synced after its entries changed.
	NoDirSync Name = "no-dir-sync"
	// NoRotationSync: a full segment is not synced, and counts as durable.
	NoRotationSync Name = "no-rotation-sync"
	// SyncOvertakes: a commit is durable before the full segments before it.
	SyncOvertakes Name = "sync-overtakes"
	// ClaimsEarly: a segment says that the segments before it are durable before they are.
	ClaimsEarly Name = "claims-early"
	// CarryLosesSegments: of several segments that are not proven, only the first is carried.
	CarryLosesSegments Name = "carry-loses-segments"
	// SyncAheadTooFar: while a sync runs in the background, a sync counts for what was
	// written beside it.
	SyncAheadTooFar Name = "sync-ahead-too-far"
	// SyncAheadFails: the error of a sync in the background is lost.
	SyncAheadFails Name = "sync-ahead-fails"
	// PrivateWindow: small writes go to a mapping that ends with the process.
	PrivateWindow Name = "private-window"
	// NoHeaderSync: a segment is used before its header is durable.
	NoHeaderSync Name = "no-header-sync"
	// NoManifestSync: a manifest edit is acknowledged without a sync.
	NoManifestSync Name = "no-manifest-sync"
	// EditOvertakes: the drop of a keyspace and a discard point are durable before the commits
	// before them.
	EditOvertakes Name = "edit-overtakes"
	// RetrySync: a failed sync is retried, and the retry is believed.
	RetrySync Name = "retry-sync"
	// NoPoison: commits continue after a failed write or sync.
	NoPoison Name = "no-poison"

	// NoChecksum: the reader does not compare the checksum of a frame.
	NoChecksum Name = "no-checksum"
	// IgnoreSalt: the reader accepts frames from earlier uses of a file.
	IgnoreSalt Name = "ignore-salt"
	// IgnoreDurableMark: the reader takes damage to durable bytes for a torn
	// tail.
	IgnoreDurableMark Name = "ignore-durable-mark"
	// SalvageNoSum: salvage does not compare the checksums of blocks.
	SalvageNoSum Name = "salvage-no-sum"
	// SalvageToDamage: salvage leaves the rest of a log behind the first damage.
	SalvageToDamage Name = "salvage-to-damage"
	// RepairUncounted: a repair takes a table that has lost entries for a whole one.
	RepairUncounted Name = "repair-uncounted"
	// RepairLosesLast: a repair leaves out the last entry of a block.
	RepairLosesLast Name = "repair-loses-last"
	// RepairShiftsTwice: a repaired table of an ingest gets the version of the ingest twice.
	RepairShiftsTwice Name = "repair-shifts-twice"
	// NoMark: an idle log does not record how far it is durable.
	NoMark Name = "no-mark"
	// PartialTxn: recovery accepts a transaction without its last frame.
	PartialTxn Name = "partial-txn"
	// NoCarry: recovery does not rewrite the unproven end of the log.
	NoCarry Name = "no-carry"
	// NoCarrySync: recovery relies on the rewritten records before it syncs
	// them.
	NoCarrySync Name = "no-carry-sync"
	// IgnoreSeal: recovery accepts a log that ends before its seal.
	IgnoreSeal Name = "ignore-seal"
	// IgnoreUnreferenced: segments in use without a reference count as garbage.
	IgnoreUnreferenced Name = "ignore-unreferenced"

	// NoBarrier: flushed memtables and replaced files are freed while readers
	// still use them.
	NoBarrier Name = "no-barrier"
	// UnconfirmedView: a reader announces the view that it reads, and does not
	// check whether the announcement came too late.
	UnconfirmedView Name = "unconfirmed-view"
	// UntoldState: a reader of a manifest state loads the state without
	// announcing that first.
	UntoldState Name = "untold-state"
	// EarlyRelease: the log is released before the manifest says so.
	EarlyRelease Name = "early-release"
	// DropDeletions: deletions are dropped above the bottom of the tree.
	DropDeletions Name = "drop-deletions"
	// NoTableDirSync: the manifest names tables whose directory entries are not
	// durable.
	NoTableDirSync Name = "no-table-dir-sync"
	// FlushedTooFar: the manifest says that one commit too many is in tables.
	FlushedTooFar Name = "flushed-too-far"
	// SwallowFlushError: memtables are freed although writing their tables
	// failed.
	SwallowFlushError Name = "swallow-flush-error"
	// LiveOrphan: Open deletes tables that are in use.
	LiveOrphan Name = "live-orphan"

	// LargeTrades: two values of a large commit trade their places in its value file.
	LargeTrades Name = "large-trades"
	// ForgetSnapshots: flushes and compactions drop versions that only older
	// snapshots need.
	ForgetSnapshots Name = "forget-snapshots"
	// FlushUnpublished: a flush includes commits that are not visible yet.
	FlushUnpublished Name = "flush-unpublished"
	// CollectHeld: garbage collection takes value files that memtables or open
	// transactions refer to.
	CollectHeld Name = "collect-held"
	// EarlyDiscard: tables are discarded before the manifest and the view have
	// dropped them.
	EarlyDiscard Name = "early-discard"
	// CutAtBottom: a table of level 0 that is cut drops its tombstones although older runs lie
	// below.
	CutAtBottom Name = "cut-at-bottom"
	// CutOwnFilter: the run of a table that is cut gets a filter of only the keys of the table.
	CutOwnFilter Name = "cut-own-filter"

	// GapHidesLater: a range without live keys stays empty for writes after it was found.
	GapHidesLater Name = "gap-hides-later"
	// GapTooNew: a snapshot uses such a range although keys lived in it at its version.
	GapTooNew Name = "gap-too-new"
	// GapTooEarly: a reader takes keys for expired that expire later.
	GapTooEarly Name = "gap-too-early"
	// GapOfOwn: what a transaction has deleted counts as dead before its commit.
	GapOfOwn Name = "gap-of-own"
	// GapGrowsOver: a range that was found empty grows over a key that was written
	// meanwhile.
	GapGrowsOver Name = "gap-grows-over"
	// GapPassesNewer: a memtable passes entries that are newer than the gap around them.
	GapPassesNewer Name = "gap-passes-newer"

	// IngestOldVersion: the entries of an ingest have the version of the commit before.
	IngestOldVersion Name = "ingest-old-version"
	// IngestUnseen: validation ignores ingests.
	IngestUnseen Name = "ingest-unseen"
	// IngestLosesTable: an ingest leaves its last table out.
	IngestLosesTable Name = "ingest-loses-table"
	// IngestUnflushed: an ingest becomes visible below memtables with older versions.
	IngestUnflushed Name = "ingest-unflushed"
	// BulkKeepsFirst: of equal keys in one run, a bulk load keeps the first one.
	BulkKeepsFirst Name = "bulk-keeps-first"
	// ManySwaps: a read of many keys swaps the last two answers.
	ManySwaps Name = "many-swaps"
	// RelayLosesLast: an ingest leaves out the entries that are on their way to the builder
	// at its end.
	RelayLosesLast Name = "relay-loses-last"
	// RelayLosesError: an ingest goes on after an error of the builder.
	RelayLosesError Name = "relay-loses-error"
	// RelayBorrows: an ingest reads large values after the caller may have changed them.
	RelayBorrows Name = "relay-borrows"
	// HintTrusted: a scan takes a part of a table that it announced for one that it read.
	HintTrusted Name = "hint-trusted"
	// AheadStale: a scan shows an earlier value for one that it has not found ahead.
	AheadStale Name = "ahead-stale"
	// PlainVersions: an iterator shows all versions of a key that a batch holds.
	PlainVersions Name = "plain-versions"
	// PassUndecided: an iterator passes all versions of a key before one of them is visible.
	PassUndecided Name = "pass-undecided"
	// PlainRounds: an iterator shows an older version of the last key of the batch before.
	PlainRounds Name = "plain-rounds"
	// PlainExpiring: an iterator shows tombstones and values that may have expired.
	PlainExpiring Name = "plain-expiring"

	// StreamBorderTwice: two ranges of a stream have the key between them.
	StreamBorderTwice Name = "stream-border-twice"
	// StreamBeforeDeletion: a stream shows the value before a deletion of the key.
	StreamBeforeDeletion Name = "stream-before-deletion"
	// StreamSinceSkips: a stream of what is new leaves out the oldest new version.
	StreamSinceSkips Name = "stream-since-skips"
	// StreamUnordered: an ordered stream delivers its ranges as they come.
	StreamUnordered Name = "stream-unordered"
	// EstimateTablesOnly: the estimate of a range leaves memtables out.
	EstimateTablesOnly Name = "estimate-tables-only"
	// EstimateFirstLevel: the estimate of a range has only the first level with keys of it.
	EstimateFirstLevel Name = "estimate-first-level"
	// SplitRepeats: a split returns a key twice, if two levels have it.
	SplitRepeats Name = "split-repeats"
	// SequenceBuffered: a sequence gives out numbers of a lease that is not durable.
	SequenceBuffered Name = "sequence-buffered"
	// SequenceReturnsOld: a sequence returns the rest of a lease although another one has
	// leased more since.
	SequenceReturnsOld Name = "sequence-returns-old"

	// FrameNonce: all frames of a sealed file have the same nonce.
	FrameNonce Name = "frame-nonce"
	// PageNonce: a page that is sealed again has the nonce that it had before.
	PageNonce Name = "page-nonce"
	// PagePosition: the position of a sealed page is not authenticated.
	PagePosition Name = "page-position"
	// PlainPage: pages of tables are written as they are.
	PlainPage Name = "plain-page"
	// SameFileKey: all files are sealed with the same key.
	SameFileKey Name = "same-file-key"
	// ContinueSealed: a manifest that was read is continued in its file, with the
	// nonces that lost frames may have had.
	ContinueSealed Name = "continue-sealed"
	// KeepDataKey: a data key seals new files whatever its age is.
	KeepDataKey Name = "keep-data-key"
	// KeepMasterKey: the rotation of the master key leaves the data keys as they are.
	KeepMasterKey Name = "keep-master-key"
	// KeepLogKey: the log is sealed with the first data key, whatever the newest is.
	KeepLogKey Name = "keep-log-key"
	// RotateForgetsKeys: the rotation of the master key keeps only the newest data key.
	RotateForgetsKeys Name = "rotate-forgets-keys"
	// KeyspaceNoEscape: keys of the default keyspace that begin with 0xff are
	// stored as they are.
	KeyspaceNoEscape Name = "keyspace-no-escape"
	// KeyspaceOpenEnd: ranges without an upper bound do not end with their
	// keyspace.
	KeyspaceOpenEnd Name = "keyspace-open-end"
	// DropWithoutTombstone: dropping a keyspace leaves its data.
	DropWithoutTombstone Name = "drop-without-tombstone"
	// DropSeenEarly: a dropped keyspace is gone for readers of older snapshots, too.
	DropSeenEarly Name = "drop-seen-early"
	// DeleteTwice: after an opening, the dropper deletes the keys of a dropped keyspace
	// once more.
	DeleteTwice Name = "delete-twice"
	// ForgetEarly: a dropped keyspace is forgotten while keys of it are left.
	ForgetEarly Name = "forget-early"
	// WriteIntoDropped: commits into a dropped keyspace succeed.
	WriteIntoDropped Name = "write-into-dropped"
	// DefaultSettings: all keyspaces have the settings of the default keyspace.
	DefaultSettings Name = "default-settings"

	// BatchLosesLast: a batch that has committed pieces drops the last one.
	BatchLosesLast Name = "batch-loses-last"
	// BatchTornPiece: a batch commits a piece in two parts.
	BatchTornPiece Name = "batch-torn-piece"
	// BatchSkipsSync: a batch without a last piece does not make the pieces before
	// durable.
	BatchSkipsSync Name = "batch-skips-sync"
	// BatchForgetsError: a batch goes on after a piece that failed.
	BatchForgetsError Name = "batch-forgets-error"

	// ForgetSettings: Open sets the stored settings that its options leave out to
	// their defaults.
	ForgetSettings Name = "forget-settings"
	// UnstoredSettings: a change of settings holds until Close, and is not stored.
	UnstoredSettings Name = "unstored-settings"

	// FileByName: a file backup takes a file for the one of the same name in the backup
	// before.
	FileByName Name = "file-by-name"
	// FileUnverified: the restore of a file backup does not compare checksums.
	FileUnverified Name = "file-unverified"
	// FilePruned: a prune deletes files beside a file backup under way.
	FilePruned Name = "file-pruned"
	// PruneNewest: a prune keeps only the files of the newest backup.
	PruneNewest Name = "prune-newest"
	// PruneUnread: a prune deletes the files of a backup whose list it cannot read.
	PruneUnread Name = "prune-unread"
	// SortedCut: a file of sorted entries that ends early counts as complete.
	SortedCut Name = "sorted-cut"
	// FileBesideDirectory: a list of files passes over what follows a directory.
	FileBesideDirectory Name = "file-beside-directory"
	// FileNeighbour: the file system of a directory has the keys of the neighbours whose
	// names begin as its own.
	FileNeighbour Name = "file-neighbour"
	// FileEndsEarly: a file ends where a read has filled its buffer.
	FileEndsEarly Name = "file-ends-early"

	// BackupForgets: an incremental backup does not name unchanged keys.
	BackupForgets Name = "backup-forgets"
	// BackupUnfiltered: an incremental backup takes what a filter rewrote as unchanged.
	BackupUnfiltered Name = "backup-unfiltered"
	// BackupUncovered: a backup holds what range tombstones hide.
	BackupUncovered Name = "backup-uncovered"
	// RestoreResurrects: a restore keeps keys that a later backup does not name.
	RestoreResurrects Name = "restore-resurrects"
	// RestoreUnfinished: a restore gives the database its name before its files are
	// durable.
	RestoreUnfinished Name = "restore-unfinished"
	// RestoreSkipsAhead: a restore that goes on takes keys for done that only begin as the
	// last one that is done.
	RestoreSkipsAhead Name = "restore-skips-ahead"
	// RestoreForeign: a restore goes on with the files of a restore of other backups.
	RestoreForeign Name = "restore-foreign"

	// FollowHalf: a follower shows a commit before it has applied all of it.
	FollowHalf Name = "follow-half"
	// FollowLogOnly: a follower shows what it read of the log without what the manifest
	// has that is older.
	FollowLogOnly Name = "follow-log-only"
	// FollowTwice: a follower keeps in memory what tables have, too.
	FollowTwice Name = "follow-twice"
	// FollowBlind: a follower goes on although its segment was freed, or another writer has
	// begun a span.
	FollowBlind Name = "follow-blind"
	// FollowLazy: a follower opens files when they are read.
	FollowLazy Name = "follow-lazy"
	// FollowUndamaged: a follower takes a damaged end of the log for one that is about to
	// grow.
	FollowUndamaged Name = "follow-undamaged"
	// FollowFirstSpan: a follower looks for its segment in the oldest span only.
	FollowFirstSpan Name = "follow-first-span"
	// FollowChecksOnce: the check of a follower believes what it reads of segments that
	// the writer frees meanwhile.
	FollowChecksOnce Name = "follow-checks-once"
	// FollowUnsynced: a follower calls durable what it only read of the log.
	FollowUnsynced Name = "follow-unsynced"
	// CheckpointTablesOnly: the checkpoint of a follower lacks what tables do not have yet.
	CheckpointTablesOnly Name = "checkpoint-tables-only"

	// KeepGarbage: the collector finds no value file that is worth a collection.
	KeepGarbage Name = "keep-garbage"
	// CollectNothing: Compact and Collect leave the garbage of value files.
	CollectNothing Name = "collect-nothing"
	// KeepExpired: merges keep values that have expired.
	KeepExpired Name = "keep-expired"
	// KeepDiscarded: merges keep the versions below the discard point.
	KeepDiscarded Name = "keep-discarded"
	// KeepReplaced: files that were replaced are not deleted.
	KeepReplaced Name = "keep-replaced"
	// KeepMemtables: memtables that were flushed stay in memory.
	KeepMemtables Name = "keep-memtables"
	// KeepLog: flushes release no segment of the log.
	KeepLog Name = "keep-log"
	// IgnoreFull: commits do not wait for memory.
	IgnoreFull Name = "ignore-full"
	// IgnoreBudget: pages of files may take any memory.
	IgnoreBudget Name = "ignore-budget"
)

// Names lists every seeded bug, in the order above.
var Names = []Name{
	SkipPointCheck, SkipRangeCheck, SkipPhantomTail, SkipTurnedRange, KeyOnlyUnread, SkipGroupCheck, ValidateOffByOne,
	StampUpright, StampReadsPast, StampPurgeUnread, StampTablesUnread, StampDropNewest, StampDropDeletion, StampWriteDiscarded,
	FeedSkip, FeedTwice, FeedHalf, FeedNoRanges, FeedNoDrops, FeedGap, FeedForget, FeedLoseValues, FeedUnsynced, FeedUnsyncedFlush,
	FeedFollowsUnsynced, FeedFollowsGap, FeedFollowsValues,
	FeedRangeBefore, FeedForeignRange, FeedNoPrefix,
	EarlyPublish, EarlyResult, EarlyRead, EarlyUnchecked, EarlyOutlives, LatePublish, SnapshotOffByOne, StaleReadVersion,
	ExpiredBegins, ExpiredReadsOn, ExpiredHolds, IgnoreOwnWrites,
	OperandsReversed, RenewExpired, FoldAcrossSnapshot, LoseUnregistered, DropNeededBase, FilterUncovers,
	FilterLosesMeta, CombineReversed, CombineLosesOne, JoinLosesOne, ForgetDefaultTTL,
	FoldVisible, FoldTwice, StaleSteps, BlindOwnMerge,
	ExpiryOffByOne,
	NoSync, NoDirSync, NoRotationSync, SyncOvertakes, ClaimsEarly, CarryLosesSegments, SyncAheadTooFar, SyncAheadFails, PrivateWindow, NoHeaderSync, NoManifestSync, EditOvertakes, RetrySync, NoPoison,
	NoChecksum, IgnoreSalt, IgnoreDurableMark, SalvageNoSum, SalvageToDamage,
	RepairUncounted, RepairLosesLast, RepairShiftsTwice, NoMark,
	PartialTxn, NoCarry, NoCarrySync, IgnoreSeal, IgnoreUnreferenced,
	NoBarrier, UnconfirmedView, UntoldState, EarlyRelease, DropDeletions, NoTableDirSync,
	FlushedTooFar, SwallowFlushError, LiveOrphan,
	LargeTrades, ForgetSnapshots, FlushUnpublished, CollectHeld, EarlyDiscard, CutAtBottom, CutOwnFilter,
	GapHidesLater, GapTooNew, GapTooEarly, GapOfOwn, GapGrowsOver, GapPassesNewer,
	IngestOldVersion, IngestUnseen, IngestLosesTable, IngestUnflushed, BulkKeepsFirst, ManySwaps, RelayLosesLast, RelayLosesError, RelayBorrows,
	HintTrusted, AheadStale, PlainVersions, PassUndecided, PlainRounds, PlainExpiring,
	StreamBorderTwice, StreamBeforeDeletion, StreamSinceSkips, StreamUnordered, EstimateTablesOnly, EstimateFirstLevel, SplitRepeats,
	SequenceBuffered, SequenceReturnsOld,
	FrameNonce, PageNonce, PagePosition, PlainPage, SameFileKey, ContinueSealed, KeepDataKey, KeepMasterKey,
	KeepLogKey, RotateForgetsKeys,
	BatchLosesLast, BatchTornPiece, BatchSkipsSync, BatchForgetsError,
	ForgetSettings, UnstoredSettings,
	KeyspaceNoEscape, KeyspaceOpenEnd, DropWithoutTombstone, DropSeenEarly, DeleteTwice, ForgetEarly, WriteIntoDropped, DefaultSettings,
	FileByName, FileUnverified, FilePruned, PruneNewest, PruneUnread, SortedCut,
	FileBesideDirectory, FileNeighbour, FileEndsEarly,
	BackupForgets, BackupUnfiltered, BackupUncovered, RestoreResurrects, RestoreUnfinished,
	RestoreSkipsAhead, RestoreForeign,
	FollowHalf, FollowLogOnly, FollowTwice, FollowBlind, FollowLazy,
	FollowUndamaged, FollowFirstSpan, FollowChecksOnce, FollowUnsynced, CheckpointTablesOnly,
	KeepGarbage, CollectNothing, KeepExpired, KeepDiscarded, KeepReplaced, KeepMemtables, KeepLog, IgnoreFull, IgnoreBudget,
}
