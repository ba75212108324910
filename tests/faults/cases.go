package faults

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// kindsOfFaults are the errors that calls fail with.
var kindsOfFaults = []struct {
	name string
	rule faultfs.Rule
}{
	{"EIO", faultfs.Rule{}},
	{"ENOSPC", faultfs.Rule{Err: vfs.ErrNoSpace}},
	// SyncDir could not open the directory, so it neither kept nor lost a name. The
	// engine relies on that: see vfs.Strict.
	{"EMFILE", faultfs.Rule{Err: vfs.ErrTooManyFiles, Sync: vfs.SyncNotTried}},
	{"EACCES", faultfs.Rule{Err: vfs.ErrPermission}},
	{"EROFS", faultfs.Rule{Err: vfs.ErrReadOnly}},
	{"ENOSPC after a part", faultfs.Rule{Err: vfs.ErrNoSpace, Partial: 700}},
	{"short", faultfs.Rule{Partial: 1}},
	{"short by a sector", faultfs.Rule{Partial: 512}},
	{"done but reported as failed", faultfs.Rule{Done: true}},
	{"sync dropped", faultfs.Rule{Sync: vfs.SyncDropped}},
	{"sync kept", faultfs.Rule{Sync: vfs.SyncKept}},
	{"sync half kept", faultfs.Rule{Sync: vfs.SyncHalf}},
	{"sync not tried", faultfs.Rule{Sync: vfs.SyncNotTried}},
}

// A Scene is a disk on which a faulty life of a database begins.
type Scene struct {
	name string
	disk *memfs.FS
	m    *model.Map // what is on it
	keys stoat.KeyProvider
}

// Scenes makes the disks: empty, closed cleanly, left by a kill.
func Scenes(t *testing.T) []*Scene {
	t.Helper()
	scenes := []*Scene{
		{name: "empty disk", disk: memfs.New(), m: model.NewMap()},
		{name: "empty disk, encrypted", disk: memfs.New(), m: model.NewMap(), keys: testkit.Keys},
	}
	for _, x := range []struct{ clean, encrypted bool }{{clean: true}, {}, {encrypted: true}} {
		r := modeltest.NewRun(modeltest.Shape{Keys: modeltest.KeySpaces[1], Memtable: testkit.SmallMemtable, Durability: stoat.Buffered, Still: true,
			Encrypted: x.encrypted})
		_, err := r.Open(0, 0)
		testkit.Must(t, err)
		modeltest.CommitSome(t, r, 10, 60)
		testkit.Must(t, modeltest.OpReopen(r, nil))
		modeltest.CommitSome(t, r, 10, 30<<10)
		s := &Scene{name: "after a kill", disk: r.FS.Clone(), m: r.Model, keys: r.Opts.Keys}
		testkit.Must(t, r.Close())
		if x.clean {
			s.name, s.disk = "after a clean close", r.FS.Clone()
		}
		scenes = append(scenes, s)
	}
	return scenes
}

// A faultCase is one life with one rule.
type faultCase struct {
	scene   *Scene
	rule    faultfs.Rule
	what    string
	fired   int64
	lastOp  vfs.Op
	history []string
}

// cases lists, for every call of a life of the scene, the cases in which it is the first
// that fails. Each call fails with every error, once and forever.
func (s *Scene) cases(t *testing.T) [][]*faultCase {
	t.Helper()
	clean := &faultCase{scene: s, rule: faultfs.Rule{Path: "matches nothing"}, what: "no fault"}
	calls := clean.count()
	if err := clean.run(0); err != nil {
		t.Fatalf("%s, without faults: %v", s.name, err)
	}
	var all [][]*faultCase
	for nth := int64(1); nth <= calls; nth++ {
		var cases []*faultCase
		for _, e := range kindsOfFaults {
			for _, forever := range []bool{false, true} {
				rule := e.rule
				rule.Nth, rule.Forever, rule.Seed = nth, forever, uint64(nth)
				cases = append(cases, &faultCase{scene: s, rule: rule, what: e.name})
			}
		}
		all = append(all, cases)
	}
	return all
}

func (c *faultCase) String() string {
	return fmt.Sprintf("scene %q, call %d fails (forever %v) with %s, last failed: %v\n  %v",
		c.scene.name, c.rule.Nth, c.rule.Forever, c.what, c.lastOp, c.history)
}

// count runs the life without faults and counts its calls.
func (c *faultCase) count() int64 {
	l := &faultyLife{faultCase: c, fs: faultfs.New(c.scene.disk.Clone()), m: c.scene.m.Clone(), rng: rand.New(rand.NewPCG(0, 0))}
	_ = l.live()
	return l.fs.Calls()
}

// run lives the life with the rule in force and looks at what is left. It looks at the disk
// as the process left it, and at the disk after a power cut.
func (c *faultCase) run(seed uint64) error {
	disk := c.scene.disk.Clone()
	l := &faultyLife{faultCase: c, fs: faultfs.New(disk), m: c.scene.m.Clone()}
	l.known = l.m.Last()
	if c.scene.name == "after a clean close" {
		l.durable = l.known
	}
	l.rng = rand.New(rand.NewPCG(seed, uint64(c.rule.Nth)))
	fault := l.fs.Add(c.rule)
	err := l.live()
	c.fired = fault.Fired()
	_, c.lastOp = l.fs.Failed()
	if err != nil {
		return err
	}
	cut := testkit.RandomCut(l.rng)(disk)
	if err := l.lookAt(disk.Clone(), l.known); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	if err := l.lookAt(cut, l.durable); err != nil {
		return fmt.Errorf("after the faults and a power cut: %w", err)
	}
	return nil
}

// FailSome makes the first n syncs of the log fail, each in turn and in each way. It makes the
// first n syncs of tables fail in one way.
func FailSome(scenes []*Scene, seed uint64, n int) error {
	for _, scene := range scenes {
		var rules []faultfs.Rule
		for nth := range int64(n) {
			rules = append(rules, faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatTable, Nth: nth + 1, Sync: vfs.SyncDropped})
		}
		for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncHalf, vfs.SyncNotTried} {
			for nth := range int64(n) {
				rules = append(rules, faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatLog, Nth: nth + 1, Sync: fate})
			}
		}
		for _, rule := range rules {
			rule.Seed = seed
			c := &faultCase{scene: scene, what: "a failing sync", rule: rule}
			if err := c.run(seed); err != nil {
				return fmt.Errorf("%v: %w", c, err)
			}
		}
	}
	return nil
}
