package jobs

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/histogram"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// Options are what Jobs are made of.
type Options struct {
	Store      *state.Store
	Commits    *commit.Committer
	Throttle   *throttle.Throttle
	Space      *space.Reserve
	Quarantine *quarantine.Quarantine
	Group      *work.Group
	Executor   *work.Executor
	Activity   *work.Activity
	Place      *place.Options
	Report     event.Sink

	// Unmapped are the options for reading tables past the mappings: what users have
	// in memory stays there.
	Unmapped tree.Options
	// Functions are the registered merge functions, nil for none.
	Functions *partial.Functions
	// Screen asks the filter of the key's keyspace. It is nil if no filter is registered.
	Screen compact.Screen
	// Raises tells about discard points. It may be nil if no keyspace has timestamps.
	Raises Raises

	HashSeed     uint64
	MemtableSize int64 // bytes
	Settings     settings.Of
	// VersionsMax returns the greatest NumVersions of all keyspaces.
	VersionsMax func() int

	// Flush, Compact and Collect wake the workers.
	Flush, Compact, Collect func()
}

// Jobs are the flusher and the compactor of one database.
type Jobs struct {
	o          Options
	store      *state.Store
	commits    *commit.Committer
	throttle   *throttle.Throttle
	space      *space.Reserve
	quarantine *quarantine.Quarantine

	// Compacting is held from the choice of a compaction to the end of its job.
	Compacting *work.Lock[lock.Compacting]
	attempts   attempts // guarded by Compacting, except its atomic

	// Owned by the flusher.
	deletions deletionsSeen
	trickle   trickle
	idleRetry idleRetry
	flushAll  bool // a flush found no room, and none has succeeded since

	// gatherFailed and joinFailed are FlushedSeq when gathering or joining last failed.
	// Neither is tried again before a flush: on a full disk, each attempt would fill it.
	gatherFailed, joinFailed atomic.Uint64

	// hidden says how many bytes the tables of level 0 hide that were made since Open. Only
	// Installed replaces it. The flusher sets flushHides for the tables that it installs next.
	hidden, flushHides atomic.Pointer[map[base.FileNum]int64]

	Counts Counts
}

// Counts are what the jobs have done, since Open.
type Counts struct {
	Flushes, Compactions                        atomic.Int64
	FlushedBytes, CompactedBytes, GatheredBytes atomic.Int64
	FlushTime, CompactTime                      histogram.Histogram
}

// New returns the jobs of a database.
func New(o Options) *Jobs {
	j := &Jobs{o: o, store: o.Store, commits: o.Commits, throttle: o.Throttle, space: o.Space,
		quarantine: o.Quarantine, Compacting: work.NewLock[lock.Compacting]()}
	j.hidden.Store(new(map[base.FileNum]int64))
	j.flushHides.Store(new(map[base.FileNum]int64))
	return j
}

// Installed is state.Hooks.Installed: it tells the throttle and the reserve what
// an edit means for them.
func (j *Jobs) Installed(s *manifest.State, edit *manifest.Edit) {
	j.commits.Held.Forget(edit.DropValues...)
	j.keepHidden(edit)
	horizon := j.store.Horizon()
	shape := j.Shape(work.Busy, horizon)
	j.throttle.SetDebt(compact.Debt(s.Version, shape), j.Use(s.Version, s.FlushedSeq, shape))
	j.space.Edited(j.Need(s.Version, horizon))
}

// Swept is state.Hooks.Swept. Files become obsolete when readers end, and merges
// may then drop what only those could see.
func (j *Jobs) Swept(freed bool) {
	if freed {
		j.o.Compact()
	}
	if freed || j.space.Scarce() {
		j.space.Look()
	}
}

// tableSizeMax is about how large tables become, in bytes.
const tableSizeMax = 32 << 20

// TableSize returns about how large the tables of a database with memtables of a
// size become, in bytes.
func TableSize(memtableSize int64) int64 { return min(tableSizeMax, memtableSize) }

// stopped returns an error when Close wants jobs to end.
func (j *Jobs) stopped() error { return j.o.Group.Err() }

// newJob returns a job by the rules of this moment, without sources.
func (j *Jobs) newJob() compact.Job {
	snapshots := j.store.Snapshots()
	if mutant.On(mutant.ForgetSnapshots) {
		snapshots = snapshots[len(snapshots)-1:]
	}
	return compact.Job{
		Functions: j.o.Functions,
		Value:     j.value,
		Rules: compact.Rules{
			Snapshots:  snapshots,
			Versions:   j.o.Settings(0).NumVersions,
			VersionsOf: j.versionsOf,
			NowMs:      j.store.Horizon(),
			Bottom:     mutant.On(mutant.DropDeletions), // a plan says it for itself
		},
		Discard: j.discards(nil, 0),
		Writer:  table.WriterOptions{HashSeed: j.o.HashSeed},
		NewFile: j.newTableFile,
	}
}

// versionsOf returns how many versions of its keys a keyspace keeps at least.
func (j *Jobs) versionsOf(keyspace uint32) int { return j.o.Settings(keyspace).NumVersions }

// codecs returns compact.Job.Codec for tables of a level.
func (j *Jobs) codecs(level int) func(keyspace uint32) codec.ID {
	return func(keyspace uint32) codec.ID { return j.o.Settings(keyspace).Compression.OfTables(level) }
}

// newTableFile creates the file of a new table.
func (j *Jobs) newTableFile() (compact.NewFile, error) {
	n, f, err := j.store.NewTableFile()
	return compact.NewFile{Num: n, File: f, Salt: rand.Uint64()}, err
}

// removeOutput deletes the tables of a job that failed. Install may have opened
// them.
func (j *Jobs) removeOutput(r compact.Result) { j.store.DeleteTables(r.Files) }

// flushedSeq returns up to which version everything is in tables.
func (j *Jobs) flushedSeq() base.SeqNum { return j.store.State().FlushedSeq }
