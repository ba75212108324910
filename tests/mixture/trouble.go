package mixture

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// A trouble is a time in which calls of the file system may fail, and what is open after it.
type trouble struct {
	rule  faultfs.Rule
	fault *faultfs.Fault // nil for a full disk
	// failed is the error after which only an Open tells what is there.
	failed error
	// doubt applies the commit that returned failed, or is nil. The commit may be there or not.
	doubt    func() error
	defined  *definition // a keyspace that may be there, or may have other settings
	raised   *raise      // a discard point that may be there
	dropping *space      // a keyspace whose drop returned an error
}

// A definition is a call of DB.Keyspace that failed.
type definition struct {
	space   *space
	after   settings // the settings if it had an effect
	created bool
}

// A raise is a call of Keyspace.DiscardBelow that failed.
type raise struct {
	space *space
	to    uint64
}

// errHalfDropped says that a keyspace has lost its name but may have kept its data.
var errHalfDropped = errors.New("a keyspace is dropped in part")

// burst plays some operations while calls may fail or the disk is full.
func (r *run) burst() error {
	t := &trouble{}
	r.trouble = t
	if r.rng.IntN(4) == 0 {
		free := r.rng.Int64N(600 << 10)
		r.note("  disk with %d bytes free", free)
		r.fs.SetCapacity(r.fs.UsedBytes() + free)
	} else {
		t.rule = r.drawRule()
		r.note("  rule %+v", t.rule)
		t.fault = r.faulty.Add(t.rule)
	}
	err := r.playFailing(t)
	r.faulty.Clear()
	r.fs.SetCapacity(diskBytes)
	if t.hasFired() {
		r.work[fired]++
	}
	if e := r.db.Sync(); errors.Is(e, stoat.ErrFailed) && t.failed == nil {
		t.failed = e // a background job met the failure
	}
	switch {
	case err != nil:
	case t.failed != nil:
		r.work[failed]++
		err = r.recover(t)
	case t.lasting():
		err = r.recover(t)
	default:
		r.trouble = nil
		err = r.verify()
	}
	r.trouble = nil
	return err
}

// diskBytes is more than a life needs.
const diskBytes = 1 << 40

// drawRule draws which calls fail.
func (r *run) drawRule() faultfs.Rule {
	ops := []vfs.OpKind{vfs.OpAny, vfs.OpWrite, vfs.OpSync, vfs.OpSyncData, vfs.OpSyncDir, vfs.OpCreate, vfs.OpRename, vfs.OpRemove, vfs.OpPreallocate, vfs.OpRead, vfs.OpMap, vfs.OpTruncate, vfs.OpOpen, vfs.OpLink}
	rule := faultfs.Rule{
		Op:      ops[r.rng.IntN(len(ops))],
		Nth:     1 + r.rng.Int64N(1<<r.rng.IntN(8)),
		Forever: r.rng.IntN(3) == 0,
		Sync:    vfs.SyncFate(r.rng.IntN(4)),
		Done:    r.rng.IntN(4) == 0,
		Partial: r.rng.IntN(2000),
		Seed:    r.rng.Uint64(),
	}
	if r.rng.IntN(2) == 0 {
		rule.Category = vfs.Category(1 + r.rng.IntN(int(vfs.CatKeys)))
	}
	if r.rng.IntN(3) == 0 {
		rule.Err = vfs.ErrNoSpace
		if rule.Op == vfs.OpRead || rule.Op == vfs.OpAny { // reads need no space
			rule.Op = vfs.OpWrite
		}
	}
	return rule
}

// hasFired reports whether a call has failed by the rule.
func (t *trouble) hasFired() bool { return t.fault != nil && t.fault.Fired() > 0 }

// lasting reports whether the database may refuse calls although no commit has failed. After a
// failed sync of a directory, each later one fails (vfs.Strict). A failure of the manifest
// ends all edits. A file with a failed read may be in quarantine. An Open ends all three.
func (t *trouble) lasting() bool {
	if !t.hasFired() {
		return false
	}
	switch t.rule.Op {
	case vfs.OpAny, vfs.OpSyncDir, vfs.OpRead, vfs.OpOpen, vfs.OpMap:
		return true
	}
	return t.rule.Category == vfs.CatNone || t.rule.Category == vfs.CatManifest
}

// playFailing plays up to eight operations, up to the first one that leaves a doubt.
func (r *run) playFailing(t *trouble) error {
	steps := []func() error{r.update, r.update, r.update, r.batch, r.batch, r.ingest, r.define, r.drop, r.dropPrefix, r.compact, r.collect, r.discard, r.checkpoint, r.backup, r.tick}
	for range 1 + r.rng.IntN(8) {
		if err := steps[r.rng.IntN(len(steps))](); err != nil || t.failed != nil {
			return err
		}
		if err := r.resolveDefinition(t.defined); err != nil {
			return err
		}
		if s := t.dropping; s != nil {
			if _, err := r.idOf(s.name); err != nil {
				t.failed = errHalfDropped // the dropper repeats the commit at any time
				return nil
			}
		}
		t.defined, t.dropping = nil, nil
	}
	return nil
}

// excuse returns nil for an error that trouble may cause. If the database has failed, doubt
// is the commit that may be there nonetheless. Each error must lead to its cause, and none may
// look like damage.
func (r *run) excuse(err error, doubt func() error) error {
	t := r.trouble
	switch {
	case err == nil || t == nil:
		return err
	case errors.Is(err, stoat.ErrCorrupt), errors.Is(err, stoat.ErrLocked), errors.Is(err, stoat.ErrClosed):
		return fmt.Errorf("the failure of a call looks like something else: %w", err)
	case errors.Is(err, stoat.ErrFailed):
		t.failed, t.doubt = err, doubt
	case errors.Is(err, faultfs.ErrInjected), errors.Is(err, vfs.ErrIO), errors.Is(err, stoat.ErrNoSpace):
	default:
		return fmt.Errorf("the error does not lead to its cause: %w", err)
	}
	r.note("  excused: %v", err)
	return nil
}
