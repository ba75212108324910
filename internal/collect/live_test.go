package collect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// A walkScene is a database with a tree that takes many reads to go through, and
// value files that are half garbage, and known to be.
type walkScene struct{ *engine }

const (
	// walkKeys is how many keys there are whose values lie in tables, and walkKey
	// about how many bytes each has.
	walkKeys = 2000
	walkKey  = 4 << 10
	// walkTree is about how many bytes the tables have.
	walkTree = walkKeys * walkKey
	// walkValues is how many values each file has.
	walkValues = 40
)

// newWalkScene makes so many files. The i-th value of a file lies behind key number
// at(file, i).
func newWalkScene(t *testing.T, files int, at func(file, i int) int) *walkScene {
	t.Helper()
	w := &walkScene{newEngine(t, 32<<20)}
	w.updateAndFlush(func(tx transaction) {
		for i := range walkKeys {
			tx.set(fmt.Appendf(nil, "%06d-%0*d", i, walkKey, i), []byte("in the table"))
		}
	})
	for file := range files {
		w.updateAndFlush(func(tx transaction) {
			for i := range walkValues {
				tx.set(walkKeyOf(at(file, i), file), walkValue(file, i))
			}
		})
	}
	w.updateAndFlush(func(tx transaction) {
		for file := range files {
			for i := 1; i < walkValues; i += 2 {
				tx.delete(walkKeyOf(at(file, i), file))
			}
		}
	})
	w.sink()
	if n := len(w.files()); n != files {
		t.Fatalf("%d value files, want %d", n, files)
	}
	return w
}

func walkKeyOf(behind, file int) []byte { return fmt.Appendf(nil, "%06d.%d", behind, file) }

func walkValue(file, i int) []byte { return bytes.Repeat([]byte{byte(file), byte(i)}, 500) }

func (w *walkScene) updateAndFlush(write func(transaction)) {
	w.T.Helper()
	w.update(write)
	w.Flush()
}

func (w *walkScene) files() []manifest.LiveValues { return w.version().Values }

// batchOf is some files to be collected now, and some next.
func batchOf(now, next []manifest.LiveValues) (b Batch) {
	choice := func(f manifest.LiveValues) values.Choice {
		return values.Choice{Num: f.Num, Copy: f.Live, Free: f.Bytes - f.Live}
	}
	for _, f := range now {
		b.now = append(b.now, choice(f))
	}
	for _, f := range next {
		b.next = append(b.next, choice(f))
	}
	return b
}

// collectRead collects some files and returns how many bytes of tables it reads.
func (w *walkScene) collectRead(b Batch, known *LiveSet) (read int64) {
	w.T.Helper()
	w.disk.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatTable {
			read += op.Len
		}
	})
	w.collect(b, known)
	w.disk.Observe(nil)
	for _, choice := range b.now {
		if f, ok := w.version().Value(choice.Num); ok && f.Live < f.Bytes {
			w.T.Errorf("%d of %d bytes of file %d are garbage", f.Bytes-f.Live, f.Bytes, f.Num)
		}
	}
	return read
}

// end closes the database, which must have all that was not deleted.
func (w *walkScene) end(files int, at func(file, i int) int) {
	w.T.Helper()
	for file := range files {
		for i := range walkValues {
			got, ok := w.get(walkKeyOf(at(file, i), file))
			if ok != (i%2 == 0) || ok && !bytes.Equal(got, walkValue(file, i)) {
				w.T.Errorf("value %d of file %d is %d bytes, there: %t", i, file, len(got), ok)
			}
		}
	}
	w.check()
	w.Close()
}

// Files that flushes have written each have values of keys from everywhere.
func TestSurvey_OneWalkServesFilesCollectedOneByOne(t *testing.T) {
	t.Parallel()
	const files = 8
	w := newWalkScene(t, files, mixed)
	read := int64(0)
	var known LiveSet
	for i, all := 0, w.files(); i < files; i++ {
		read += w.collectRead(batchOf(all[i:i+1], all[i+1:]), &known)
	}
	t.Logf("%d bytes of tables were read for %d files, where tables are about %d bytes", read, files, walkTree)
	if read < walkTree/2 || read > 3*walkTree/2 {
		t.Errorf("that is not one walk")
	}
	if len(known.live) != 0 {
		t.Errorf("what is live is still known of %d files that have been rewritten since", len(known.live))
	}
	w.end(files, mixed)
}

// Values that were loaded in the order of their keys, or gathered, lie close
// together in both tables and value files.
func TestSurvey_AWalkReadsWhatLiesBetweenTheKeysOfAFile(t *testing.T) {
	t.Parallel()
	const files = 20
	apart := func(file, i int) int { return file*walkKeys/files + i }
	w := newWalkScene(t, files, apart)
	all := w.files()
	for _, now := range [][]manifest.LiveValues{
		all[3:4],
		all[:1],
		all[files-1:],
		{all[15], all[5]},
		all[7:11],
	} {
		read := w.collectRead(batchOf(now, nil), new(LiveSet))
		// Keys and pointers are read by half a megabyte at once.
		most := int64(len(now))*walkTree/8 + 2<<20
		if t.Logf("%d bytes of tables were read for %d files", read, len(now)); read > most {
			t.Errorf("%d bytes of tables were read for %d files, want at most %d", read, len(now), most)
		}
	}
	w.end(files, apart)
}

// All files are in the order of their keys. A walk that finds one that is not walks twice,
// and misses no value.
func TestSurvey_AFileOutOfTheOrderOfItsKeysIsFoundWhole(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 1<<20)
	const n = 10
	key := func(i int) []byte { return fmt.Appendf(nil, "k%d", (i+n/2)%n) } // the first key in the middle
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 64<<10) }
	out := place.NewWriter(&e.Streams.Options)
	var pointers [n][]byte
	for i := range n {
		entry := base.Entry{Key: key(i), Value: value(i), Meta: base.Meta{Kind: base.KindSet}}
		_, err := out.Append(&entry, 0)
		e.Must(err)
		pointers[i] = bytes.Clone(entry.Value)
	}
	e.Must(out.Finish())
	e.Must(e.Store.Install(manifest.Edit{AddValues: out.Made()}, nil))
	e.update(func(tx transaction) {
		for i := range n {
			tx.write(key(i), pointers[i], base.KindPointer)
		}
	})
	e.Flush()
	e.update(func(tx transaction) { tx.delete(key(1)) })
	e.Flush()
	e.sink()
	f := e.version().Values[0]
	if got := e.collector.firstKey(f.ValueFile); !bytes.Equal(got, key(0)) {
		t.Fatalf("the first record is that of %q", got)
	}
	live, err := e.collector.liveIn([]*manifest.ValueFile{f.ValueFile}, liveBytes, e.Group.Err)
	e.Must(err)
	found := 0
	for range live[f.Num].all() {
		found++
	}
	if found != n-1 {
		t.Errorf("%d values are live, want %d", found, n-1)
	}
	e.collect(batchOf([]manifest.LiveValues{f}, nil), new(LiveSet))
	if now := e.version().Values[0]; now.File == f.File || now.Live != now.Bytes {
		t.Errorf("file %d has become %d, of which %d of %d bytes are live", f.File, now.File, now.Live, now.Bytes)
	}
	for i := range n {
		if got, ok := e.get(key(i)); ok != (i != 1) || ok && !bytes.Equal(got, value(i)) {
			t.Errorf("%q has %d bytes, there: %t", key(i), len(got), ok)
		}
	}
}

// mixed is where keys lie of which each file has some from everywhere.
func mixed(file, i int) int { return i*walkKeys/walkValues + file }

// newSurveyedScene returns a scene of mixed files of which the first one has been
// collected, and what is known of the others since.
func newSurveyedScene(t *testing.T, files int) (*walkScene, *LiveSet) {
	w, known := newWalkScene(t, files, mixed), new(LiveSet)
	all := w.files()
	w.collectRead(batchOf(all[:1], all[1:]), known)
	return w, known
}

// Commits may overwrite what was found to be live before its file is collected.
func TestSurvey_WhatIsLiveIsFoundAgainWhenMuchOfItHasDied(t *testing.T) {
	t.Parallel()
	w, known := newSurveyedScene(t, 3)
	w.updateAndFlush(func(tx transaction) {
		for i := 0; i < walkValues; i += 4 {
			tx.set(walkKeyOf(mixed(1, i), 1), walkValue(1, i))
		}
	})
	w.sink()
	if f := w.files()[2]; len(known.of([]*manifest.ValueFile{f.ValueFile}, w.version())) != 1 {
		t.Errorf("what is live in the file that no commit has touched must be found again")
	}
	all := w.files()
	if read := w.collectRead(batchOf(all[1:2], all[2:3]), known); read < walkTree/2 {
		t.Errorf("%d bytes of tables were read to find what is live now", read)
	}
	if read := w.collectRead(batchOf(all[2:3], nil), known); read != 0 {
		t.Errorf("%d bytes of tables were read for what is known", read)
	}
	w.end(3, mixed)
}

// What is live in a file is of no use once another collection has rewritten the
// file: what died in between is not there any more.
func TestSurvey_WhatIsKnownOfAFileEndsWithItsRewriting(t *testing.T) {
	t.Parallel()
	w, known := newSurveyedScene(t, 2)
	all := w.files()
	w.collectRead(batchOf(all[1:], nil), new(LiveSet)) // another collection
	if n := len(known.of([]*manifest.ValueFile{all[1].ValueFile}, w.version())); n != 0 {
		t.Errorf("it is still known what is live in the file that was replaced")
	}
	w.end(2, mixed)
}

func TestSurvey_LiveValuesAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var want []values.Live
	var l liveValues
	key := []byte("k")
	for range 1000 {
		key = append(key[:rng.IntN(len(key)+1)], bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(300))...)
		live := values.Live{
			Pointer: values.NewPointer(7, 40+8*rng.Int64N(1<<32-5), 40+8*rng.Int64N(1<<20), rng.Uint32()),
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

// Keys may be long. The collector leaves files for later when there is no memory for
// their keys.
func TestSurvey_TakesNoMoreFilesThanItHasMemoryFor(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 32<<20)
	for _, keys := range []string{"a", "b", "c"} {
		e.leaveGarbage(keys)
	}
	var files []*manifest.ValueFile
	for _, f := range e.version().Values {
		if f.Live > 0 {
			files = append(files, f.ValueFile)
		}
	}
	all, err := e.collector.liveIn(files, liveBytes, e.Group.Err)
	if err != nil || len(all) != len(files) || len(files) < 3 {
		t.Fatalf("%d of %d files, %v", len(all), len(files), err)
	}
	two := all[files[0].Num].bytes() + all[files[1].Num].bytes()
	for most, want := range map[int]int{two: 2, two - 1: 1, 1: 1} {
		some, err := e.collector.liveIn(files, most, e.Group.Err)
		if err != nil || len(some) != want {
			t.Errorf("in %d bytes: %d files, want %d, %v", most, len(some), want, err)
		}
		for n, live := range some {
			if live.bytes() != all[n].bytes() {
				t.Errorf("in %d bytes: %d bytes of file %d, want %d", most, live.bytes(), n, all[n].bytes())
			}
		}
	}
}

// Should what was found and what the manifest counts ever differ, a rewriting might
// lose values.
func TestSurvey_AFileOfWhichNotAllThatIsLiveWasFoundStays(t *testing.T) {
	t.Parallel()
	w, known := newSurveyedScene(t, 2)
	all := w.files()
	file := all[1].ValueFile
	known.live[file.Num].live++ // as if one byte had not been found
	w.collect(batchOf(all[1:], nil), known)
	if now := w.files()[1]; now.File != file.File || !w.Quarantine.HasValues(file) {
		t.Errorf("file %d was rewritten as %d; it is known to be damaged: %t", file.File, now.File, w.Quarantine.HasValues(file))
	}
	w.check()
}
