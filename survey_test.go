package stoat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A walkScene is a database with a tree that takes many reads to go through, and
// value files that are half garbage, and known to be.
type walkScene struct {
	t    *testing.T
	db   *DB
	disk *faultfs.FS
}

const (
	// walkKeys is how many keys there are whose values lie in tables, and walkKey
	// about how long each is.
	walkKeys = 2000
	walkKey  = 4 << 10
	// walkTree is about how large the tables are.
	walkTree = walkKeys * walkKey
	// walkValues is how many values each file has.
	walkValues = 40
)

// newWalkScene makes so many files. The i-th value of a file lies behind key number
// at(file, i).
func newWalkScene(t *testing.T, files int, at func(file, i int) int) *walkScene {
	t.Helper()
	w := &walkScene{t: t, disk: faultfs.New(memfs.New())}
	var err error
	if w.db, err = openDriven("/db", &Options{FS: w.disk}, still{}); err != nil {
		t.Fatal(err)
	}
	w.update(func(tx *Txn) error {
		for i := range walkKeys {
			if err := tx.Set(fmt.Appendf(nil, "%06d-%0*d", i, walkKey, i), []byte("in the table")); err != nil {
				return err
			}
		}
		return nil
	})
	for file := range files {
		w.update(func(tx *Txn) error {
			for i := range walkValues {
				if err := tx.Set(walkKeyOf(at(file, i), file), walkValue(file, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.update(func(tx *Txn) error {
		for file := range files {
			for i := 1; i < walkValues; i += 2 {
				if err := tx.Delete(walkKeyOf(at(file, i), file)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	w.sink()
	if n := len(w.files()); n != files {
		t.Fatalf("%d value files, want %d", n, files)
	}
	return w
}

func walkKeyOf(behind, file int) []byte { return fmt.Appendf(nil, "%06d.%d", behind, file) }

func walkValue(file, i int) []byte { return bytes.Repeat([]byte{byte(file), byte(i)}, 500) }

// update commits and flushes.
func (w *walkScene) update(write func(tx *Txn) error) {
	w.t.Helper()
	if err := w.db.Update(write); err != nil {
		w.t.Fatal(err)
	}
	mustFlush(w.t, w.db)
}

// sink makes known what is garbage.
func (w *walkScene) sink() {
	w.t.Helper()
	c := compaction{db: w.db, stop: w.db.stopped, upTo: base.SeqNumMax}
	if err := c.each(&w.db.compacting, c.sink); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walkScene) files() []manifest.LiveValues { return w.db.manifest.State().Version.Values }

// haul is some files to be collected now, and some next.
func (w *walkScene) haul(now, next []manifest.LiveValues) (h haul) {
	for _, f := range now {
		h.now = append(h.now, values.Choice{Num: f.Num, Copy: f.Live, Free: f.Bytes - f.Live})
	}
	for _, f := range next {
		h.next = append(h.next, values.Choice{Num: f.Num, Copy: f.Live, Free: f.Bytes - f.Live})
	}
	return h
}

// collect collects some files and returns how many bytes of tables it reads.
func (w *walkScene) collect(h haul, known *survey) (read int64) {
	w.t.Helper()
	w.disk.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatTable {
			read += op.Len
		}
	})
	err := w.db.collect(h, known, w.db.stopped)
	w.disk.Observe(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, choice := range h.now {
		if f, ok := w.db.manifest.State().Version.Value(choice.Num); ok && f.Live < f.Bytes {
			w.t.Errorf("%d of %d bytes of file %d are garbage", f.Bytes-f.Live, f.Bytes, f.Num)
		}
	}
	return read
}

// close closes the database, which must have all that was not deleted.
func (w *walkScene) close(files int, at func(file, i int) int) {
	w.t.Helper()
	if err := w.db.View(func(tx *Txn) error {
		for file := range files {
			for i := range walkValues {
				got, err := tx.Get(walkKeyOf(at(file, i), file))
				if i%2 == 1 && !errors.Is(err, ErrNotFound) || i%2 == 0 && !bytes.Equal(got, walkValue(file, i)) {
					return fmt.Errorf("value %d of file %d is %d bytes: %w", i, file, len(got), err)
				}
			}
		}
		return nil
	}); err != nil {
		w.t.Error(err)
	}
	report, err := w.db.Check(w.t.Context(), CheckOptions{})
	if err != nil || len(report.Problems) > 0 {
		w.t.Errorf("%+v, %v", report, err)
	}
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// Files that flushes have written each have values of keys from everywhere.
func TestOneWalkOverTheTablesServesFilesThatAreCollectedOneByOne(t *testing.T) {
	t.Parallel()
	const files = 8
	w := newWalkScene(t, files, mixed)
	read := int64(0)
	var known survey
	for i, all := 0, w.files(); i < files; i++ {
		read += w.collect(w.haul(all[i:i+1], all[i+1:]), &known)
	}
	t.Logf("%d bytes of tables were read for %d files, where tables are about %d bytes", read, files, walkTree)
	if read < walkTree/2 || read > 3*walkTree/2 {
		t.Errorf("that is not one walk")
	}
	if len(known.live) != 0 {
		t.Errorf("what is live is still known of %d files that have been rewritten since", len(known.live))
	}
	w.close(files, mixed)
}

// Values that were loaded in the order of their keys, or gathered, lie close
// together in both tables and value files.
func TestAWalkReadsOfTheTablesWhatLiesBetweenTheKeysOfAFile(t *testing.T) {
	t.Parallel()
	const files = 20
	apart := func(file, i int) int { return file*walkKeys/files + i }
	w := newWalkScene(t, files, apart)
	all := w.files()
	for _, c := range []struct{ now []manifest.LiveValues }{
		{all[3:4]},
		{all[:1]},
		{all[files-1:]},
		{[]manifest.LiveValues{all[15], all[5]}},
		{all[7:11]},
	} {
		read := w.collect(w.haul(c.now, nil), new(survey))
		// Keys and pointers are read by half a megabyte at once.
		most := int64(len(c.now))*walkTree/8 + 2<<20
		if t.Logf("%d bytes of tables were read for %d files", read, len(c.now)); read > most {
			t.Errorf("%d bytes of tables were read for %d files, want at most %d", read, len(c.now), most)
		}
	}
	w.close(files, apart)
}

// A commit writes values in the order in which they were set. That a file is taken
// to be in the order of its keys costs a second walk, and no value.
func TestAllThatIsLiveIsFoundInAFileThatIsNotInTheOrderOfItsKeys(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	const n = 10
	set := func(i int) []byte { return fmt.Appendf(nil, "k%d", (i+n/2)%n) } // the first key in the middle
	if err := db.Update(func(tx *Txn) error {
		for i := range n {
			if err := tx.Set(set(i), bytes.Repeat([]byte{byte(i)}, 64<<10)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, db)
	if err := db.Update(func(tx *Txn) error { return tx.Delete(set(1)) }); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, db)
	c := compaction{db: db, stop: db.stopped, upTo: base.SeqNumMax}
	if err := c.each(&db.compacting, c.sink); err != nil {
		t.Fatal(err)
	}
	f := db.manifest.State().Version.Values[0]
	if f.FirstSeq != 0 || db.firstKey(f.ValueFile) != nil {
		t.Fatalf("the file has versions from %d on and seems to begin with %q", f.FirstSeq, db.firstKey(f.ValueFile))
	}
	ordered := *f.ValueFile
	ordered.FirstSeq = 1
	if key := db.firstKey(&ordered); string(key) != string(set(0)) {
		t.Fatalf("the first record is that of %q", key)
	}
	for _, f := range []*manifest.ValueFile{f.ValueFile, &ordered} {
		live, err := db.liveIn([]*manifest.ValueFile{f}, liveBytes, db.stopped)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for range live[f.Num].all() {
			found++
		}
		if found != n-1 {
			t.Errorf("%d values are live, want %d", found, n-1)
		}
	}
	if err := db.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Txn) error {
		for i := range n {
			if got, err := tx.Get(set(i)); i != 1 && !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, 64<<10)) {
				t.Errorf("%q has %d bytes, %v", set(i), len(got), err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// mixed is where keys lie of which each file has some from everywhere.
func mixed(file, i int) int { return i*walkKeys/walkValues + file }

// newSurveyedScene returns a scene of mixed files of which the first one has been
// collected, and what is known of the others since.
func newSurveyedScene(t *testing.T, files int) (*walkScene, *survey) {
	w, known := newWalkScene(t, files, mixed), new(survey)
	all := w.files()
	w.collect(w.haul(all[:1], all[1:]), known)
	return w, known
}

// Others may overwrite what was found to be live before its turn comes.
func TestWhatIsLiveIsLookedForAgainWhenMuchOfItHasDied(t *testing.T) {
	t.Parallel()
	w, known := newSurveyedScene(t, 3)
	w.update(func(tx *Txn) error {
		for i := 0; i < walkValues; i += 4 {
			if err := tx.Set(walkKeyOf(mixed(1, i), 1), walkValue(1, i)); err != nil {
				return err
			}
		}
		return nil
	})
	w.sink()
	if f := w.files()[2]; len(known.of([]*manifest.ValueFile{f.ValueFile}, w.db.manifest.State().Version)) != 1 {
		t.Errorf("what is live in the file that nobody has touched must be found again")
	}
	all := w.files()
	if read := w.collect(w.haul(all[1:2], all[2:3]), known); read < walkTree/2 {
		t.Errorf("%d bytes of tables were read to find what is live now", read)
	}
	if read := w.collect(w.haul(all[2:3], nil), known); read != 0 {
		t.Errorf("%d bytes of tables were read for what is known", read)
	}
	w.close(3, mixed)
}

// What is live in a file is of no use once another rewriting has taken its place:
// what died in between is not there any more.
func TestWhatIsKnownOfAFileEndsWithItsRewriting(t *testing.T) {
	t.Parallel()
	w, known := newSurveyedScene(t, 2)
	all := w.files()
	w.collect(w.haul(all[1:], nil), new(survey)) // by somebody else
	if n := len(known.of([]*manifest.ValueFile{all[1].ValueFile}, w.db.manifest.State().Version)); n != 0 {
		t.Errorf("it is still known what is live in the file that was replaced")
	}
	w.close(2, mixed)
}

func TestWhatIsFoundToBeLiveIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var want []values.Live
	var l liveValues
	key := []byte("k")
	for range 1000 {
		key = append(key[:rng.IntN(len(key)+1)], bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(300))...)
		live := values.Live{
			Pointer: values.Pointer{File: 7, Offset: 40 + 8*rng.Int64N(1<<32-5), Length: 40 + 8*rng.Int64N(1<<20), ValueLen: rng.Uint32()},
			Key:     bytes.Clone(key), Seq: base.SeqNum(rng.Uint64N(uint64(base.SeqNumMax) + 1)),
		}
		want = append(want, live)
		l.add(live.Pointer, live.Pointer.AppendTo(nil), live.Key, live.Seq)
	}
	i, bytesOf := 0, uint64(0)
	for got, err := range l.all() {
		if err != nil || got.Pointer != want[i].Pointer || !bytes.Equal(got.Key, want[i].Key) || got.Seq != want[i].Seq {
			t.Fatalf("value %d is %+v, %v, want %+v", i, got, err, want[i])
		}
		bytesOf += values.RefBytes(got.Pointer)
		i++
	}
	if i != len(want) || l.found != bytesOf {
		t.Errorf("%d values of %d bytes, want %d of %d", i, l.found, len(want), bytesOf)
	}
}

// What is live in a value file is found by a walk over tables that may be as large
// as the tree.
func TestCollectEndsWithItsContextWhileItLooksForWhatIsLive(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.stopped(cancel, func() error { return w.db.Collect(ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Collect says %v", err)
	}
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseDoesNotWaitForTheWalkOfACollection(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	closed := make(chan error, 1)
	err := w.stopped(func() {
		go func() { closed <- w.db.Close() }()
		<-w.db.background.stopped.Done()
	}, func() error {
		if !w.db.background.enter() {
			t.Fatal("the work has ended before it began")
		}
		defer w.db.background.running.Done()
		return w.db.collectStep()
	})
	if !errors.Is(err, errStopped) {
		t.Errorf("the collector says %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// newLongWalk makes a scene in which what is live in one file takes a walk over
// everything.
func newLongWalk(t *testing.T) *walkScene {
	t.Helper()
	return newWalkScene(t, 1, func(_, i int) int { return i * walkKeys / walkValues })
}

// stopped runs a collection and calls stop when it has begun to read tables. It
// fails if much is read of them after that.
func (w *walkScene) stopped(stop func(), collect func() error) error {
	w.t.Helper()
	before, after := int64(0), int64(0)
	w.disk.Observe(func(op vfs.Op) {
		if op.Kind != vfs.OpRead || op.Category != vfs.CatTable {
			return
		}
		if before += op.Len; before < 1<<20 {
			return
		}
		if stop != nil {
			stop()
			stop = nil
			return
		}
		after += op.Len
	})
	err := collect()
	w.disk.Observe(nil)
	if stop != nil {
		w.t.Fatalf("%d bytes of tables were read in all", before)
	}
	if after > walkTree/4 {
		w.t.Errorf("%d bytes of tables were read after the end was wanted", after)
	}
	return err
}

// Should what was found and what the manifest counts ever differ, nobody knows what
// would be lost.
func TestAFileOfWhichNotAllThatIsLiveWasFoundStaysAsItIs(t *testing.T) {
	t.Parallel()
	w, known := newSurveyedScene(t, 2)
	all := w.files()
	file := all[1].ValueFile
	known.live[file.Num].live++ // as if one byte had not been found
	if err := w.db.collect(w.haul(all[1:], nil), known, w.db.stopped); err != nil {
		t.Fatal(err)
	}
	if now := w.files()[1]; now.File != file.File || !w.db.bad.has(file) {
		t.Errorf("file %d was rewritten as %d; it is known to be bad: %t", file.File, now.File, w.db.bad.has(file))
	}
	if report, err := w.db.Check(t.Context(), CheckOptions{}); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report.Problems, err)
	}
	if err := w.db.Close(); err != nil {
		t.Error(err)
	}
}
