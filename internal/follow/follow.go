package follow

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
)

// Options are what a Follower is made of.
type Options struct {
	Store    *state.Store
	Manifest *manifest.Store // of manifest.Follow
	Log      log.Options
	Group    *work.Group
	Report   event.Sink

	HashSeed     uint64
	MemtableSize int64 // bytes
	// Every is how long the follower waits before it looks for commits.
	Every time.Duration

	// Settings and Spaces are called before readers see another table of keyspaces. What
	// Spaces returns is called after that, with the first version of which no reader has
	// the table before it.
	Settings func(table []*manifest.Keyspace)
	Spaces   func(table []*manifest.Keyspace) (shown func(from base.SeqNum))
	// Reload reads the data keys again. It is nil without encryption.
	Reload func(ctx context.Context) error
}

const (
	// triesMax is how often a round is tried before the follower gives up.
	triesMax = 40
	// pauseMax is the longest pause between two tries.
	pauseMax = 10 * time.Millisecond
	// roundBytes is about how much of the log one round reads at most.
	roundBytes = 4 << 20
	// idlePart: without commits, the follower waits idlePart times Every.
	idlePart = 2
	// damageEvery is how long nothing must come before the follower looks for damage at
	// the end of the log. That doubles up to damageMax.
	damageEvery, damageMax = time.Second, time.Minute
)

// A Follower follows one database.
type Follower struct {
	o     Options
	store *state.Store

	mu *work.Lock[lock.Following] // held during a refresh
	// Guarded by mu.

	next manifest.State // the newest one that was read
	// pending says that readers do not see next yet.
	pending bool
	// logFirst says that the next view must wait until the log is read to its end: next drops
	// or changes a keyspace.
	logFirst bool
	log      *log.Follower // nil before the log is read anew
	// tables are the memtables of the newest view, the newest first. While private is set,
	// they are those of a view that is being made.
	tables  []*memtable.Table
	private bool
	applied base.SeqNum // everything up to it is in tables of next, or in memtables
	gap     base.SeqNum // the newest version that the log lacks, and that followed another
	flushed base.SeqNum // memtables lack what the log has up to it

	wait  time.Duration // of Step
	last  error         // which Step has reported
	quiet quiet
}

// A quiet is for how long nothing has come, and when to look for damage.
type quiet struct {
	since time.Time
	// after is 0 if the next look is due at once. Then the last look found damage, or there
	// was no look since the log was read anew.
	after time.Duration
}

// New returns the follower of a store that shows state, without what the log has.
func New(o Options, s manifest.State) *Follower {
	return &Follower{o: o, store: o.Store, mu: work.NewLock[lock.Following](), next: s, pending: true, wait: o.Every}
}

// Refresh shows readers everything that the files have at the time of the call. If another
// database has taken their place, the error is base.ErrStale.
func (f *Follower) Refresh(ctx context.Context) error {
	_, err := f.refresh(ctx, true)
	return err
}

// Sync is Refresh, and makes durable everything that readers see then. The writer does not
// wait for it, except for the device.
func (f *Follower) Sync(ctx context.Context) error {
	if err := f.Refresh(ctx); err != nil {
		return err
	}
	if !mutant.On(mutant.FollowUnsynced) {
		// All other files are durable before the manifest names them.
		if err := log.SyncAll(f.o.Log); err != nil {
			return err
		}
	}
	return f.o.Manifest.SyncAll()
}

// Still calls fn while readers see nothing new. When ctx is done before that, it returns the
// error of ctx.
func (f *Follower) Still(ctx context.Context, fn func() error) error {
	if !f.mu.LockUntil(ctx.Done()) {
		return ctx.Err()
	}
	defer f.mu.Unlock()
	return fn()
}

// refresh is Refresh, and reports whether there was anything new. Without asked, it looks for
// another database only when it looks for damage.
func (f *Follower) refresh(ctx context.Context, asked bool) (changed bool, err error) {
	if !f.mu.LockUntil(ctx.Done()) {
		return false, ctx.Err()
	}
	defer f.mu.Unlock()
	for try := 0; ; {
		if err := errors.Join(ctx.Err(), f.o.Group.Err()); err != nil {
			return changed, err
		}
		some, more, err := f.roundLocked(ctx)
		changed = changed || some
		switch {
		case err == errInterrupted:
			continue
		case err == nil && !more:
			if asked {
				err = f.o.Manifest.Replaced() // other errors than ErrStale may pass
			}
			if err == nil {
				var again bool
				if again, err = f.lookForDamageLocked(changed); !again {
					return changed, err
				}
			}
		case err == nil && some:
			try = 0
			continue
		}
		if try++; errors.Is(err, base.ErrStale) {
			return changed, err
		}
		if err != nil && try >= triesMax {
			if stale := f.o.Manifest.Replaced(); errors.Is(stale, base.ErrStale) {
				err = stale
			}
			return changed, err
		}
		if try >= 10*triesMax {
			return changed, errBehind
		}
		if err := f.recoverLocked(ctx, try, err); err != nil {
			return changed, err
		}
	}
}

// Close ends the following. The view stays.
func (f *Follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log != nil {
		f.abandonLocked()
	}
}

// errInterrupted says that the context is done, or that the database is being closed.
var errInterrupted = errors.New("interrupted")

// errBehind says that the writer frees the log before the follower has read it.
var errBehind = behindError{}

type behindError struct{}

func (behindError) Error() string { return "the writer frees the log before the follower has read it" }
func (behindError) Unwrap() error { return base.ErrStale }

// recoverLocked prepares the next try after an error, or after a round that was overtaken.
func (f *Follower) recoverLocked(ctx context.Context, try int, err error) error {
	if err != nil && f.o.Reload != nil {
		if err := f.o.Reload(ctx); err != nil && try > triesMax/2 {
			return err
		}
	}
	if try < 3 {
		return nil
	}
	return f.o.Group.Sleep(ctx, min(time.Duration(try)*time.Millisecond, pauseMax))
}

// roundLocked reads the log and the manifest once. It reports whether readers see more than
// before, and whether there may be more to read. After errInterrupted, the next round goes on
// in the log where this one has stopped.
func (f *Follower) roundLocked(ctx context.Context) (changed, more bool, err error) {
	if f.log == nil {
		// Since the last round, the writer may have freed the segments that the manifest named.
		if err := f.readManifestLocked(); err != nil {
			return false, false, err
		}
		f.beginLocked()
	}
	ended, logErr := f.readLogLocked(ctx)
	if logErr == errInterrupted {
		return false, true, errInterrupted
	}
	f.logFirst = f.logFirst && !ended
	err = f.readManifestLocked()
	next := f.next
	if err == nil && f.log.Within(next.Spans) {
		err = logErr // otherwise the writer has freed the segment, and the error means nothing
	}
	if err != nil {
		f.abandonLocked()
		return false, false, err
	}
	wentBack := next.FlushedSeq < f.flushed
	if wentBack || !f.log.Within(next.Spans) && (f.private || !mutant.On(mutant.FollowBlind)) {
		f.abandonLocked()
		return false, true, nil
	}
	if ended && !f.log.Newest() {
		err = f.log.Damaged()
		f.abandonLocked()
		return false, true, err
	}
	if f.gap > next.FlushedSeq {
		f.abandonLocked()
		return false, false, base.Corrupt(-1, "sequence numbers in the log", uint64(f.gap+1), "the next one")
	}
	if f.logFirst {
		return true, true, nil // the next round reads more of the log
	}
	if f.private || f.pending && !mutant.On(mutant.FollowLogOnly) {
		err = f.installLocked()
		return err == nil, !ended, err
	}
	return f.publishLocked(), !ended, nil
}

// readManifestLocked reads the edits of the manifest since the last call.
func (f *Follower) readManifestLocked() error {
	next, edited, err := f.o.Manifest.Next()
	f.logFirst = f.logFirst || edited && manifest.ChangesKeyspaces(f.next.Keyspaces, next.Keyspaces)
	f.next, f.pending = next, f.pending || edited
	return err
}

// beginLocked begins to read the log anew.
func (f *Follower) beginLocked() {
	f.log = log.Follow(f.o.Log, f.next.Spans)
	f.tables, f.private = []*memtable.Table{f.store.Memory.NewTable(0)}, true
	f.applied, f.flushed, f.gap = f.next.FlushedSeq, f.next.FlushedSeq, 0
	f.quiet.after = 0
}

// abandonLocked gives up what was read of the log since beginLocked, or since the last view.
func (f *Follower) abandonLocked() {
	f.log.Close()
	f.log = nil
	if f.private {
		for _, t := range f.tables {
			t.Release()
		}
	}
	f.tables, f.private = nil, false
}

// readLogLocked applies what the log has. It reports whether that was all. Readers see
// nothing of it yet.
func (f *Follower) readLogLocked(ctx context.Context) (ended bool, err error) {
	for bytes := 0; bytes < roundBytes || f.private; {
		encoded, err := f.log.Next()
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		bytes += len(encoded)
		if err := f.applyLocked(encoded); err != nil {
			return false, err
		}
		if ctx.Err() != nil || f.o.Group.Err() != nil {
			return false, errInterrupted
		}
	}
	return false, nil
}

// applyLocked puts a transaction into the memtables, unless tables have it.
func (f *Follower) applyLocked(encoded []byte) error {
	seq, err := payload.SeqOf(encoded)
	if err != nil || seq <= f.applied {
		return err
	}
	if seq > f.applied+1 {
		f.gap = seq - 1
	}
	active := f.tables[0]
	if active.Len() > 0 && active.Bytes()+int64(len(encoded)) > f.o.MemtableSize {
		active = f.store.Memory.NewTable(active.Len())
		f.tables = slices.Insert(slices.Clone(f.tables), 0, active)
		if !f.private {
			f.store.AddMemtables(base.SegmentRef{}, active)
		}
	}
	if mutant.On(mutant.FollowHalf) && !f.private {
		f.store.SetVisible(seq)
		runtime.Gosched() // so that a reader looks at this half
	}
	err = payload.Decode(encoded, func(h payload.Header) error {
		f.store.RestoreClock(h.TimeMs)
		return nil
	}, func(key, value []byte, m base.Meta) error {
		return active.Set(key, value, base.Hash(key, f.o.HashSeed), m, seq)
	})
	f.applied = seq
	return err
}

// publishLocked shows readers what was applied. They see the files already.
func (f *Follower) publishLocked() (changed bool) {
	if f.applied <= f.store.Visible() {
		return false
	}
	f.store.SetVisible(f.applied)
	f.store.NotePublished(f.applied, work.Now())
	return true
}

// installLocked shows readers the newest state with what was applied.
func (f *Follower) installLocked() error {
	kept := f.store.Keep(f.next.Version)
	tables, err := f.prepareLocked()
	if err != nil {
		if len(kept) > 0 {
			f.store.Discard(kept)
		}
		return err
	}
	visible, before := max(f.applied, f.next.FlushedSeq, f.next.LastSeq), f.store.Visible()
	shown := func(base.SeqNum) {}
	if !slices.Equal(f.store.State().Keyspaces, f.next.Keyspaces) {
		f.o.Settings(f.next.Keyspaces)
		shown = f.o.Spaces(f.next.Keyspaces)
	}
	f.store.Follow(f.next, tables, visible)
	f.store.NotePublished(visible, work.Now())
	shown(max(visible, before+1))
	f.tables, f.private, f.pending, f.applied, f.flushed = tables, false, false, visible, f.next.FlushedSeq
	if visible < before {
		f.o.Report(event.Warning{What: "the database has lost commits that the follower had shown", Err: base.ErrStale})
	}
	return nil
}

// prepareLocked opens the files of the newest state, and returns its memtables.
func (f *Follower) prepareLocked() ([]*memtable.Table, error) {
	if !mutant.On(mutant.FollowLazy) {
		open := func() error { return f.store.Files().OpenAll(f.next.Version) }
		if err := fault.Guard(open); err != nil {
			return nil, err
		}
	}
	return f.withoutFlushedLocked(f.next.FlushedSeq)
}

// withoutFlushedLocked returns the memtables without what is in tables.
func (f *Follower) withoutFlushedLocked(flushed base.SeqNum) ([]*memtable.Table, error) {
	if mutant.On(mutant.FollowTwice) {
		return f.tables, nil
	}
	var left []*memtable.Table
	for i, t := range f.tables {
		if i == 0 && t.Len() == 0 || t.FirstSeq() > flushed {
			left = append(left, t)
			continue
		}
		if t.LastSeq() > flushed {
			rest := f.store.Memory.NewTable(0)
			if err := rest.CopyAfter(t, flushed); err != nil {
				rest.Release()
				return nil, err
			}
			left = append(left, rest)
		}
		break
	}
	if len(left) == 0 {
		left = append(left, f.store.Memory.NewTable(0))
	}
	if f.private {
		for _, t := range f.tables {
			if !slices.Contains(left, t) {
				t.Release()
			}
		}
	}
	return left, nil
}

// lookForDamageLocked returns an error if the log or the manifest has damage where more
// should come. It looks if it has never looked at what was read, if the last look found
// damage, and if nothing has come for a while. again says that the writer has freed what
// was read, or that the look failed: the caller begins another round.
func (f *Follower) lookForDamageLocked(changed bool) (again bool, err error) {
	now, q := time.Now(), &f.quiet
	switch {
	case q.after == 0:
	case changed:
		*q = quiet{now, damageEvery}
		return false, nil
	case now.Sub(q.since) < q.after:
		return false, nil
	}
	after := min(max(2*q.after, damageEvery), damageMax)
	q.after = 0
	if err := f.o.Manifest.Replaced(); err != nil {
		return false, err
	}
	damage := f.o.Manifest.Damaged()
	if damage == nil {
		damage = f.log.Damaged()
	}
	if damage != nil {
		_, edited, err := f.o.Manifest.Next()
		if edited || err != nil {
			f.abandonLocked() // the writer may have freed the segment
			f.pending = true
			return err == nil, err
		}
		return !errors.Is(damage, base.ErrCorrupt), damage
	}
	*q = quiet{now, after}
	return false, nil
}

// Step is the step of the worker: it refreshes.
func (f *Follower) Step() (again time.Duration, err error) {
	changed, err := f.refresh(f.o.Group.Stopped(), false)
	switch {
	case f.o.Group.Err() != nil:
		return 0, nil
	case err != nil:
		if f.last == nil || f.last.Error() != err.Error() {
			f.o.Report(event.BackgroundError{Err: err})
		}
		f.last = err
		return 0, err
	}
	f.last = nil
	if f.wait = min(2*f.wait, idlePart*f.o.Every); changed {
		f.wait = f.o.Every
	}
	return f.wait, nil
}

// VerifyLog reads the log of the newest manifest from its start, and returns how many
// transactions there are. pass is called now and then, and stops it. So does the end of ctx.
func (f *Follower) VerifyLog(ctx context.Context, pass func() error) (records int64, err error) {
	for range triesMax {
		records, tail, err := verify(f.o.Log, f.store.State().Spans, pass)
		if err == nil {
			err = tail.Damaged()
		}
		tail.Close()
		if err != nil && !errors.Is(err, base.ErrCorrupt) {
			return records, err
		}
		// The writer may have freed a segment, and used it again, before all of it was read.
		// Then the log seemed to end there, or to be damaged. Only a refresh can tell.
		if err := f.Refresh(ctx); err != nil {
			return records, err
		}
		if tail.Within(f.store.State().Spans) || mutant.On(mutant.FollowChecksOnce) {
			return records, err
		}
	}
	return 0, errBehind
}

func verify(o log.Options, spans []base.LogSpan, pass func() error) (records int64, tail *log.Follower, err error) {
	tail = log.Follow(o, spans)
	for {
		encoded, err := tail.Next()
		if err == io.EOF {
			return records, tail, nil
		}
		if err == nil {
			err = pass()
		}
		if err == nil {
			_, err = payload.SeqOf(encoded)
		}
		if err != nil {
			return records, tail, err
		}
		records++
	}
}
