package steps

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/manual"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	gatherKeys  = 400
	gatherFiles = 8
)

// A gatherScene is a database whose background jobs only the test runs. It has one
// table or two, whose values lie mixed in some files.
type gatherScene struct {
	*testing.T
	keys   int
	opts   stoat.Options // FS and Durability are the scene's
	disk   *openCount
	faults *faultfs.FS
	db     *inside.DB
}

// An openCount counts the value files that are open for reading.
type openCount struct {
	vfs.FS
	now, most int
}

func (o *openCount) Open(name string, cat vfs.Category) (vfs.File, error) {
	f, err := o.FS.Open(name, cat)
	if err != nil || cat != vfs.CatValue {
		return f, err
	}
	o.now++
	o.most = max(o.most, o.now)
	return countedFile{f, o}, nil
}

type countedFile struct {
	vfs.File
	of *openCount
}

func (f countedFile) Close() error {
	f.of.now--
	return f.File.Close()
}

func newGatherScene(t *testing.T) *gatherScene { return newGatherSceneOf(t, gatherKeys, gatherFiles) }

func newGatherSceneOf(t *testing.T, keys, files int) *gatherScene {
	t.Helper()
	s := &gatherScene{T: t, keys: keys, disk: &openCount{FS: memfs.New()}}
	s.open()
	s.scatter(files, 1)
	if jumps := s.db.Stats().ValueJumps; jumps < int64(keys)-2 { // there may be two tables
		t.Fatalf("%d jumps between %d values", jumps, keys)
	}
	return s
}

// scatter writes keys, each with its value in another file than the one before.
// It writes one in every of the keys of a file.
func (s *gatherScene) scatter(files, every int) {
	s.Helper()
	for file := range files {
		s.write(file, s.keys, files*every)
		if file%gatherFiles == gatherFiles-1 {
			s.sink() // each look at level 0 takes as long as there are runs in it
		}
	}
	s.sink()
}

// write writes keys from one on, below another, with steps between them, and flushes them.
func (s *gatherScene) write(from, below, step int) {
	s.Helper()
	s.must(s.db.Update(func(tx stoat.Txn) error {
		for k := from; k < below; k += step {
			if err := tx.Set(gatherKey(k), gatherValue(k)); err != nil {
				return err
			}
		}
		return nil
	}))
	s.must(s.db.Engine.Commits.Rotate(true))
	_, err := s.db.Engine.Jobs.FlushNext()
	s.must(err)
}

// sink merges all tables into the last level. Values stay where they are.
func (s *gatherScene) sink() {
	s.Helper()
	for {
		plan, due := compact.PickRange(s.db.Engine.Store.Version(), s.db.Engine.Jobs.Shape(work.Busy, s.db.Engine.Store.Horizon()), compact.Range{UpTo: base.SeqNumMax})
		if !due {
			return
		}
		s.must(s.db.Engine.Jobs.Run(plan, s.db.Engine.Group.Err, nil))
	}
}

func gatherKey(k int) []byte   { return fmt.Appendf(nil, "gather-%04d", k) }
func gatherValue(k int) []byte { return bytes.Repeat([]byte{byte(k), byte(k >> 8)}, 500) }

func (s *gatherScene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *gatherScene) open() {
	s.Helper()
	s.faults = faultfs.New(s.disk)
	var err error
	opts := s.opts
	opts.FS, opts.Durability = s.faults, stoat.Buffered
	s.db, err = inside.Open("/db", &opts, work.Executor{Manual: true})
	s.must(err)
}

// gather moves about so many bytes at most. What a caller waits for does not end
// when commits arrive.
func (s *gatherScene) gather(bytes uint64, reason compact.Reason) error {
	plan, due := s.db.Engine.Jobs.PickGathering(true)
	if !due {
		s.Fatal("there is nothing to gather")
	}
	plan.Gather, plan.Reason, plan.Patient = bytes, reason, false
	return s.db.Engine.Jobs.Run(plan, s.db.Engine.Group.Err, nil)
}

// join moves the values of so many files.
func (s *gatherScene) join(files int) error {
	v := s.db.Engine.Store.Version()
	plan := compact.Plan{Reason: compact.ReasonFiles, OutputLevel: manifest.Levels - 1, Bottom: true}
	plan.Inputs[plan.OutputLevel] = v.Levels[plan.OutputLevel]
	for _, f := range v.Values[:files] {
		plan.Join = append(plan.Join, f.Num)
	}
	return s.db.Engine.Jobs.Run(plan, s.db.Engine.Group.Err, nil)
}

// mustHaveAll reads all values, and checks the files.
func (s *gatherScene) mustHaveAll() {
	s.Helper()
	s.must(s.db.View(s.read))
	_, err := s.db.Check(s.Context(), stoat.CheckOptions{})
	s.must(err)
}

func (s *gatherScene) read(tx stoat.Txn) error {
	n := 0
	for k, v := range tx.All() {
		if !bytes.Equal(k, gatherKey(n)) || !bytes.Equal(v, gatherValue(n)) {
			return fmt.Errorf("key %q, %d in order, has another value", k, n)
		}
		n++
	}
	if n != s.keys {
		return fmt.Errorf("%d keys, want %d", n, s.keys)
	}
	return tx.Err()
}

func TestGathering_MovesAsMuchAsItIsToldAndTheNextGoesOnBehind(t *testing.T) {
	t.Parallel()
	s := newGatherScene(t)
	jumps := int64(gatherKeys)
	for steps := 0; ; steps++ {
		if _, due := s.db.Engine.Jobs.PickGathering(true); !due {
			break
		}
		s.must(s.gather(100_000, compact.ReasonManual))
		s.mustHaveAll()
		if now := s.db.Stats().ValueJumps; now >= jumps || steps > gatherKeys*1100/100_000 {
			t.Fatalf("%d jumps after %d steps, %d before the last", now, steps, jumps)
		} else {
			jumps = now
		}
	}
	if jumps > 64 { // what is left is too short to be walked through
		t.Errorf("%d jumps are left", jumps)
	}
	for {
		due, err := s.db.Engine.Collector.Tidy(true, new(collect.LiveSet))
		s.must(err)
		if !due {
			break
		}
	}
	s.db.Engine.Store.Sweep()
	s.mustHaveAll()
	s.must(s.db.Close())
	s.open()
	s.mustHaveAll()
	s.must(s.db.Close())
}

// Until garbage is collected it takes the room that a gathering needs.
func TestCompact_GathersAlsoWhereGarbageLeavesNoRoomAtFirst(t *testing.T) {
	t.Parallel()
	const keys = 3000 // more than is gathered whole
	s := &gatherScene{T: t, keys: keys, disk: &openCount{FS: memfs.New()}, opts: stoat.Options{MemtableSize: 64 << 10}}
	s.open()
	s.scatter(gatherFiles, 1)
	s.scatter(gatherFiles, 2)
	if before := s.db.Stats(); before.ValueJumps < keys-20 || before.ValueGarbage == 0 {
		t.Fatalf("%d jumps, %d bytes of garbage", before.ValueJumps, before.ValueGarbage)
	}
	if _, due := s.db.Engine.Jobs.PickGathering(true); due {
		t.Fatal("there is room for a gathering at once")
	}
	s.must(s.db.Compact(t.Context(), stoat.CompactOptions{}))
	if after := s.db.Stats(); after.ValueJumps != 0 || after.ValueGarbage != 0 || after.GarbageFiles != 0 {
		t.Errorf("%d jumps between %d files, %d bytes of garbage, %d files wait to be deleted",
			after.ValueJumps, after.Values, after.ValueGarbage, after.GarbageFiles)
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

func TestCompactProgress_CountsMovedValuesBeforeAndDuringAStep(t *testing.T) {
	t.Parallel()
	const keys = 10_000 // more than one report within a step
	for what, garbage := range map[string]bool{"in a step": false, "with garbage": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := &gatherScene{T: t, keys: keys, disk: &openCount{FS: memfs.New()}, opts: stoat.Options{MemtableSize: 1 << 20}}
			s.open()
			s.scatter(gatherFiles, 1)
			if garbage {
				s.scatter(gatherFiles, 8)
			}
			var told []stoat.CompactProgress
			s.must(s.db.Compact(t.Context(), stoat.CompactOptions{Progress: func(p stoat.CompactProgress) { told = append(told, p) }}))
			s.mustBeGoodProgress(told)
			if last := told[len(told)-1]; last.Done < keys*1000 {
				t.Errorf("%d bytes of values were moved, and %d told", keys*1000, last.Done)
			}
			s.must(s.db.Close())
		})
	}
}

func TestCompactProgress_CountsTheTablesBelow(t *testing.T) {
	t.Parallel()
	s := newGatherScene(t)
	s.must(s.db.Update(func(tx stoat.Txn) error { return tx.Set(gatherKey(0), gatherValue(0)) }))
	s.must(s.db.Engine.Commits.Rotate(true))
	_, err := s.db.Engine.Jobs.FlushNext()
	s.must(err)
	var told []stoat.CompactProgress
	o := stoat.CompactOptions{Lower: []byte("a"), Progress: func(p stoat.CompactProgress) { told = append(told, p) }}
	s.must(s.db.Compact(t.Context(), o))
	s.mustBeGoodProgress(told)
	s.must(s.db.Close())
}

// mustBeGoodProgress demands estimates that are good enough for a progress bar.
func (s *gatherScene) mustBeGoodProgress(told []stoat.CompactProgress) {
	s.Helper()
	last, before := told[len(told)-1], int64(0)
	for _, p := range told {
		if p.Done < before || p.Done-before > max(manual.ReportEvery*5/4, last.Done*2/3) || p.Total < p.Done ||
			p.Total < last.Done*3/4 || p.Total > last.Done*5/4 {
			s.Errorf("%+v after %d is a bad estimate of %d", p, before, last.Done)
		}
		before = p.Done
	}
	if last.Done != last.Total {
		s.Errorf("in the end it is %+v", last)
	}
}

func TestGathering_EndsEarlyWhenCommitsArrive(t *testing.T) {
	t.Parallel()
	s := newGatherScene(t)
	s.db.Engine.Activity.Note()
	s.must(s.gather(1<<40, compact.ReasonScattered))
	if got := s.db.Stats(); got.GatheredBytes > jobs.MoveStep+4096 || got.ValueJumps < gatherKeys/4 {
		t.Errorf("%d bytes were moved, %d jumps are left", got.GatheredBytes, got.ValueJumps)
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

// A small database is gathered whole: neither garbage nor commits stop that. No collection
// needs to copy anything then.
func TestGathering_AWholeOneLeavesNothingToCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &gatherScene{T: t, keys: gatherKeys, disk: &openCount{FS: memfs.New()}, opts: stoat.Options{MemtableSize: 64 << 10}}
		s.open()
		s.scatter(gatherFiles, 1)
		s.scatter(gatherFiles, 2) // makes a third of the values garbage
		before := s.db.Stats()
		if before.ValueGarbage < before.ValueBytes/4 {
			t.Fatalf("%d of %d bytes are garbage", before.ValueGarbage, before.ValueBytes)
		}
		s.db.Engine.Activity.Note()
		time.Sleep(work.IdleAfter / 2)
		s.collectStep(true) // it sees the readers so far
		time.Sleep(2 * work.IdleAfter)
		s.collectStep(true)
		plan, due := s.db.Engine.Jobs.PickGathering(false)
		if !due || !plan.Patient {
			t.Fatalf("a gathering is due: %t, patient: %t", due, plan.Patient)
		}
		s.db.Engine.Activity.Note()
		s.must(s.db.Engine.Jobs.Run(plan, s.db.Engine.Group.Err, nil))
		time.Sleep(2 * work.IdleAfter)
		s.collectStep(false)
		s.db.Engine.Store.Sweep()
		if got := s.db.Stats(); got.Values != 1 || got.ValueJumps != 0 || got.ValueGarbage != 0 || got.CollectedBytes != 0 {
			t.Errorf("%d value files, %d jumps, %d bytes of garbage, %d bytes copied by collections",
				got.Values, got.ValueJumps, got.ValueGarbage, got.CollectedBytes)
		}
		s.mustHaveAll()
		s.must(s.db.Close())
	})
}

// collectStep lets the collector work, which is to wait for a gathering or not.
func (s *gatherScene) collectStep(waits bool) {
	s.Helper()
	again, err := s.db.Engine.Collector.Step()
	s.must(err)
	if waits != (again > 0) {
		s.Errorf("the collector looks again in %s, it waits for a gathering: %t", again, waits)
	}
}

// What is too much to be gathered at once is gathered in steps, which commits end.
func TestGathering_ALargeOneIsNotWhole(t *testing.T) {
	t.Parallel()
	s := &gatherScene{T: t, keys: 3000, disk: &openCount{FS: memfs.New()}, opts: stoat.Options{MemtableSize: 64 << 10}}
	s.open()
	s.scatter(200, 1)
	plan, due := s.db.Engine.Jobs.PickGathering(false)
	if !due || plan.Patient || plan.Gather > 3000*1000/2 {
		t.Errorf("a gathering is due: %t, patient: %t, of %d bytes at most", due, plan.Patient, plan.Gather)
	}
	s.must(s.db.Close())
}

// newNearlyScattered returns a scene with one value in sixteen in order. That is too many for
// a gathering without readers.
func newNearlyScattered(t *testing.T) *gatherScene {
	t.Helper()
	s := newGatherScene(t)
	s.write(0, gatherKeys/16, 1)
	s.sink()
	s.db.Woken(s.db.Engine.Workers.Compactor)
	return s
}

// pass reads everything with iterators so many times.
func (s *gatherScene) pass(times int) {
	s.Helper()
	for range times {
		s.must(s.db.View(s.read))
	}
}

func (s *gatherScene) gatherIdle() (due bool) {
	s.Helper()
	due, err := s.db.Engine.Jobs.GatherIdle()
	s.must(err)
	return due
}

func TestGathering_FollowsIteratorsThatReadMuch(t *testing.T) {
	t.Parallel()
	s := newNearlyScattered(t)
	before := s.db.Stats().ValueJumps
	for pass := range 3 {
		if s.gatherIdle() || s.db.Woken(s.db.Engine.Workers.Compactor) {
			t.Fatalf("a gathering is due after %d passes, with %d jumps between %d values", pass, before, gatherKeys)
		}
		s.pass(1)
	}
	s.pass(5) // an iterator does not tell all that it has read
	if !s.db.Woken(s.db.Engine.Workers.Compactor) {
		t.Error("nothing wakes the compactor")
	}
	// A gathering that ends early leaves a table behind. It goes on without more readers.
	plan, due := s.db.Engine.Jobs.PickGathering(false)
	if !due {
		t.Fatal("nothing is due after eight passes")
	}
	plan.Gather = 20_000
	s.must(s.db.Engine.Jobs.Run(plan, s.db.Engine.Group.Err, nil))
	if left := s.db.Stats().ValueJumps; left < before/2 {
		t.Fatalf("%d jumps are left of %d", left, before)
	}
	if !s.gatherIdle() {
		t.Error("nothing is due after a gathering that ended early")
	}
	for s.gatherIdle() {
	}
	if after := s.db.Stats().ValueJumps; after > 64 { // a table with fewer values is not worth it
		t.Errorf("%d jumps are left of %d", after, before)
	}
	s.pass(8)
	if s.gatherIdle() {
		t.Error("values in order are gathered again")
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

// A merge makes new tables, which have the readers of the old ones. After a gathering,
// readers count anew.
func TestGathering_ReadersOfATableCountAfterAMerge(t *testing.T) {
	t.Parallel()
	s := newNearlyScattered(t)
	s.pass(8)
	s.write(0, 1, 1)
	s.sink()
	if !s.gatherIdle() {
		t.Fatal("nothing is due after eight passes and a merge")
	}
	for s.gatherIdle() {
	}
	for _, m := range s.db.Engine.Store.Version().Levels[manifest.Levels-1] {
		if m.Jumps < m.Pointers/2 && s.db.Engine.Store.Files().Scanned(m) {
			t.Errorf("the gathered table %d counts as scanned", m.Num)
		}
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

func TestGathering_ASnapshotKeepsItsValues(t *testing.T) {
	t.Parallel()
	s := newGatherScene(t)
	tx, err := s.db.Begin(stoat.ReadOnly)
	s.must(err)
	it := tx.Iterator(stoat.IterOptions{})
	it.Next()
	first := it.Value()
	s.must(s.gather(1<<40, compact.ReasonManual))
	_, err = s.db.Engine.Collector.Tidy(true, new(collect.LiveSet))
	s.must(err)
	s.db.Engine.Store.Sweep()
	if !bytes.Equal(first, gatherValue(0)) {
		t.Error("a value has changed under an iterator")
	}
	s.must(s.read(tx))
	it.Close()
	tx.Discard()
	s.db.Engine.Store.Sweep()
	if got := s.db.Stats(); got.Values != 1 || got.ValueJumps != 0 || got.GarbageFiles != 0 {
		t.Errorf("%d value files, %d jumps, %d files wait to be deleted", got.Values, got.ValueJumps, got.GarbageFiles)
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

func TestJoining_MovesTheValuesOfItsFilesAndNoOthers(t *testing.T) {
	t.Parallel()
	s := newGatherScene(t)
	s.db.Engine.Activity.Note() // a joining goes on beside commits
	s.must(s.join(3))
	version := s.db.Engine.Store.Version()
	if moved := version.Values[gatherFiles]; moved.Values != 3*gatherKeys/gatherFiles || moved.Live != moved.Bytes {
		t.Errorf("%d values were moved, of which %d of %d bytes are live", moved.Values, moved.Live, moved.Bytes)
	}
	for i, f := range version.Values[:gatherFiles] {
		if want := f.Bytes; i < 3 && f.Live != 0 || i >= 3 && f.Live != want {
			t.Errorf("%d of %d bytes of file %d are live", f.Live, want, i)
		}
	}
	if got := s.db.Stats(); got.GatheredBytes != 0 || got.CompactedBytes < 3*gatherKeys/gatherFiles*1000 {
		t.Errorf("%d bytes count as gathered, %d as written by merges", got.GatheredBytes, got.CompactedBytes)
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

func TestGathering_MovesValuesOutOfMoreFilesThanMayBeOpen(t *testing.T) {
	t.Parallel()
	const files = jobs.MoveFiles + 20
	s := newGatherSceneOf(t, 2*files, files)
	s.disk.most = 0
	before := s.disk.now
	s.must(s.gather(1<<40, compact.ReasonManual))
	if most := s.disk.most - before; most != jobs.MoveFiles || s.disk.now != before {
		t.Errorf("%d old files were open at once and %d stay so", most, s.disk.now-before)
	}
	if jumps := s.db.Stats().ValueJumps; jumps != 0 {
		t.Errorf("%d jumps are left", jumps)
	}
	s.mustHaveAll()
	s.must(s.db.Close())
}

// damage changes a byte in the middle of a value file.
func (s *gatherScene) damage(f *manifest.ValueFile) {
	s.Helper()
	file, err := s.disk.OpenReadWrite(s.disk.Join("/db", base.ValueName(f.File)), vfs.CatValue)
	s.must(err)
	_, err = file.WriteAt([]byte{0xdb}, f.Size/2)
	s.must(errors.Join(err, file.Close()))
}

func TestMovingValues_ADamagedValueStaysWithTheRestOfItsFile(t *testing.T) {
	t.Parallel()
	for what, move := range map[string]func(s *gatherScene) error{
		"gathering": func(s *gatherScene) error { return s.gather(1<<40, compact.ReasonManual) },
		"joining":   func(s *gatherScene) error { return s.join(gatherFiles) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newGatherScene(t)
			bad := s.db.Engine.Store.Version().Values[gatherFiles-1]
			s.damage(bad.ValueFile)
			s.must(move(s))
			for _, f := range s.db.Engine.Store.Version().Values {
				stays := f.Num == bad.Num
				if stays && (f.Live < f.Bytes/3 || f.Live > f.Bytes*2/3) || !stays && f.Live != 0 && f.Live != f.Bytes {
					t.Errorf("of file %d, bad %t, %d of %d bytes are live", f.Num, stays, f.Live, f.Bytes)
				}
			}
			if known := s.db.Engine.Quarantine.Values(); len(known) != 1 || !errors.Is(known[bad.File], stoat.ErrCorrupt) {
				t.Errorf("value files in quarantine: %v", known)
			}
			if known := s.db.Engine.Quarantine.Tables(); len(known) > 0 {
				t.Errorf("tables %v are in quarantine", known)
			}
			s.db.Engine.Store.Sweep()
			if orphans, err := s.db.Engine.Store.Orphans(); err != nil || len(orphans) > 0 {
				t.Errorf("there are %v, %v", orphans, err)
			}
			s.must(s.db.Close())
		})
	}
}

// Half of the values lie in a file that cannot be read. So each of the others is a
// jump away from the next, before and after a gathering.
func TestGathering_ValuesThatCannotBeMovedDoNotKeepItGoing(t *testing.T) {
	t.Parallel()
	s := newGatherSceneOf(t, gatherKeys, 2)
	bad := s.db.Engine.Store.Version().Values[1]
	s.faults.Add(faultfs.Rule{Op: vfs.OpRead, Path: s.disk.Join("/db", base.ValueName(bad.File)), Forever: true})
	for n := 0; ; n++ {
		due, err := s.db.Engine.Jobs.GatherIdle()
		s.must(err)
		if !due {
			break
		}
		if n == 3 {
			t.Fatalf("%d bytes were gathered, and more is due", s.db.Stats().GatheredBytes)
		}
	}
	if jumps := s.db.Stats().ValueJumps; jumps < gatherKeys*9/10 {
		t.Errorf("%d jumps between %d values: want nearly as many as values", jumps, gatherKeys)
	}
	if err := s.db.Compact(t.Context(), stoat.CompactOptions{}); !errors.Is(err, vfs.ErrIO) {
		t.Errorf("Compact says %v of a file that cannot be read", err)
	}
	if err := s.db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("z")}); err != nil {
		t.Errorf("Compact says %v of a range that has nothing in that file", err)
	}
	s.must(s.db.Close())
}

// The first of the values is damaged, so its file has nothing to move, and the joining
// makes no empty file for it.
func TestJoining_OneDamagedValueKeepsNoOtherFilesFromBeingJoined(t *testing.T) {
	t.Parallel()
	const valueSize = 17 << 10 // a file for each commit
	files := testkit.Raced(300, 120)
	s := &gatherScene{T: t, disk: &openCount{FS: memfs.New()}}
	s.faults = faultfs.New(s.disk)
	db, err := inside.Open("/db", &stoat.Options{FS: s.faults, MemtableSize: 64 << 10, Durability: stoat.Buffered}, work.Executor{Manual: true})
	s.must(err)
	s.db = db
	write := func(from int) {
		for k := from; k < from+files; k++ {
			s.must(db.Update(func(tx stoat.Txn) error { return tx.Set(gatherKey(k), bytes.Repeat([]byte{byte(k)}, valueSize)) }))
			s.must(db.Engine.Commits.Rotate(true))
			_, err := db.Engine.Jobs.FlushNext()
			s.must(err)
		}
	}
	settle := func() {
		for n := 0; ; n++ {
			due, err := db.Engine.Jobs.Tidy(work.Busy)
			s.must(err)
			if !due {
				break
			}
			if n == 100 {
				t.Fatal("there is no end of joining")
			}
		}
	}
	write(0)
	if n := len(db.Engine.Store.Version().Values); n != files {
		t.Fatalf("%d value files of %d commits", n, files)
	}
	s.damage(db.Engine.Store.Version().Values[0].ValueFile)
	settle()
	write(files)
	settle()
	left := 0
	for _, f := range db.Engine.Store.Version().Values {
		if f.Live > 0 {
			left++
		}
		if f.Bytes == 0 {
			t.Errorf("value file %d is empty", f.Num)
		}
	}
	if left > 256+3 {
		t.Errorf("%d value files are left", left)
	}
	if s := db.Stats(); s.CompactedBytes > int64(2*files*valueSize*3/2) {
		t.Errorf("merges wrote %d bytes for %d of values", s.CompactedBytes, 2*files*valueSize)
	}
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); !errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("Compact says %v of a value that is damaged", err)
	}
	if n := db.Stats().Values; n > 4 {
		t.Errorf("%d value files after Compact", n)
	}
	s.must(db.View(func(tx stoat.Txn) error {
		for k := range 2 * files {
			v, err := tx.Get(gatherKey(k))
			if k == 0 {
				if !errors.Is(err, stoat.ErrCorrupt) {
					t.Errorf("the damaged value: %v", err)
				}
			} else if err != nil || !bytes.Equal(v, bytes.Repeat([]byte{byte(k)}, valueSize)) {
				t.Fatalf("value %d: %d bytes, %v", k, len(v), err)
			}
		}
		return nil
	}))
	s.must(db.Close())
}

func TestJoining_MovesNothingInADatabaseThatIsBeingClosed(t *testing.T) {
	t.Parallel()
	s := newGatherScene(t)
	s.db.Engine.Store.ClosedFlag().Store(true)
	if err := s.join(gatherFiles); !errors.Is(err, stoat.ErrClosed) {
		t.Errorf("a joining says %v", err)
	}
	s.db.Engine.Store.ClosedFlag().Store(false)
	s.mustHaveAll()
	s.must(s.db.Close())
}

func TestGathering_LeavesNothingBehindWhenItFails(t *testing.T) {
	t.Parallel()
	failMoving(t, func(s *gatherScene) error { return s.gather(1<<40, compact.ReasonManual) })
}

func TestJoining_LeavesNothingBehindWhenItFails(t *testing.T) {
	t.Parallel()
	failMoving(t, func(s *gatherScene) error { return s.join(gatherFiles) })
}

// failMoving makes each call to the file system of a move fail, one after the other,
// until the move makes fewer calls.
func failMoving(t *testing.T, move func(s *gatherScene) error) {
	t.Helper()
	every := int64(1)
	if testing.Short() {
		every = 4
	}
	for nth := int64(1); ; nth += every {
		s := newGatherScene(t)
		fault := s.faults.Add(faultfs.Rule{Nth: nth})
		err := move(s)
		s.faults.Clear()
		if fault.Fired() == 0 {
			s.must(err)
			if nth < 30 {
				t.Errorf("there are %d calls", nth-1)
			}
			s.must(s.db.Close())
			return
		}
		if err != nil && !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("call %d: %v", nth, err)
		}
		failed := s.db.Engine.Store.EditErr() != nil
		s.mustHaveAll()
		if !failed && err != nil {
			s.db.Engine.Store.Sweep()
			if orphans, err := s.db.Engine.Store.Orphans(); err != nil || len(orphans) > 0 {
				t.Fatalf("call %d leaves %v, %v", nth, orphans, err)
			}
			// A folder that could not be synced is not synced again.
			if again := move(s); again != nil && !errors.Is(again, vfs.ErrIO) {
				t.Fatalf("after a failure of call %d: %v", nth, again)
			}
			s.mustHaveAll()
		}
		if err := s.db.Close(); err != nil && !failed {
			t.Fatal(err)
		}
		s.open()
		s.mustHaveAll()
		s.must(s.db.Close())
	}
}
