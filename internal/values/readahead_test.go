package values

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// inFileOrder returns values for a file of a few MiB.
func inFileOrder() (values []stored) {
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range 3000 {
		values = append(values, stored{key: fmt.Appendf(nil, "key-%05d", i), seq: 7, value: noise.Bytes(rng, 1000+i%400)})
	}
	return values
}

// loadRound loads a round of values, as a scan does on two processors.
func loadRound(a *Ahead, r *Reader, round []stored) { loadRoundOn(2, a, r, round) }

// loadRoundOn is loadRound on a machine with so many processors.
func loadRoundOn(processors int, a *Ahead, r *Reader, round []stored) {
	a.Begin()
	for _, s := range round {
		a.Add(r, &s.p, s.key, s.seq)
	}
	a.loadScan(AheadSize, func() int { return processors })
}

// untilEnded waits for the end of the readahead.
func untilEnded(t *testing.T, a *Ahead) {
	t.Helper()
	for began := time.Now(); a.forward.running.Load(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the readahead does not end")
		}
	}
}

// verifiedOf returns how many of the values are verified.
func verifiedOf(r *Reader, values []stored) (n int) {
	for _, s := range values {
		if r.v.Load().marks.has(s.p.Offset) {
			n++
		}
	}
	return n
}

func TestReadahead_OneProcessorIsLeftToTheScan(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	var a Ahead
	defer a.Clear()
	for from := 0; from < 4*AheadSize; from += AheadSize {
		loadRoundOn(1, &a, r, values[from:from+AheadSize])
		untilEnded(t, &a)
	}
	if n := verifiedOf(r, values); n != 0 {
		t.Errorf("%d values are verified ahead", n)
	}
}

func TestReadahead_AScanThatFetchesNothingHasNone(t *testing.T) {
	t.Parallel()
	for _, fetch := range []int{0, -1} {
		values := inFiles(t, -1, 1)
		var a Ahead
		for from := 0; from < 8*AheadSize; from += AheadSize {
			a.Begin()
			for _, s := range values[from : from+AheadSize] {
				a.Add(s.r, &s.p, s.key, s.seq)
			}
			if missing := a.LoadScan(fetch); missing != AheadSize {
				t.Errorf("fetch %d: %d values are missing, want all", fetch, missing)
			}
		}
		if a.forward.started || a.forward.course != nil {
			t.Errorf("fetch %d: the scan has a readahead", fetch)
		}
		a.Clear()
	}
}

func TestReadahead_ThreeRoundsInFileOrderVerifyWhatFollows(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	var a Ahead
	defer a.Clear()
	verified := func() int { return verifiedOf(r, values) }
	for n := 1; n <= 2; n++ {
		loadRound(&a, r, values[n*AheadSize:(n+1)*AheadSize])
		if untilEnded(t, &a); verified() != 0 {
			t.Errorf("%d rounds verified %d values ahead", n, verified())
		}
	}
	loadRound(&a, r, values[3*AheadSize:4*AheadSize])
	untilEnded(t, &a)
	n := verified()
	if n < 500 || n > 2000 {
		t.Errorf("%d values are verified ahead, want about %d bytes", n, readaheadMin)
	}
	loadRound(&a, r, values[4*AheadSize:5*AheadSize])
	mustHave(t, r, values)

	// Rounds that jump start nothing.
	a.Clear()
	if err := r.DropPages(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []int{2000, 1000, 2500, 0} {
		loadRound(&a, r, values[from:from+AheadSize])
		untilEnded(t, &a)
	}
	if n := verified(); n != 0 {
		t.Errorf("rounds in no order verified %d values ahead", n)
	}
}

// A filed value is one with the reader of its file.
type filed struct {
	stored
	r *Reader
}

// inFiles returns values in the order of a scan. They lie in turn in the files of these
// numbers. A byte of value number wrong is flipped, unless that is negative.
func inFiles(t *testing.T, wrong int, nums ...base.FileNum) []filed {
	t.Helper()
	return inFilesOf(t, memfs.NewVolatile(), wrong, nums...)
}

// inFilesOf is inFiles on a file system.
func inFilesOf(t *testing.T, fs vfs.FS, wrong int, nums ...base.FileNum) []filed {
	t.Helper()
	all := inFileOrder()
	found := make([]filed, len(all))
	for n, num := range nums {
		var values []stored
		for i := n; i < len(all); i += len(nums) {
			values = append(values, all[i])
		}
		data, _ := mustWrite(t, values, WriterOptions{Num: num, Salt: testSalt})
		if wrong >= 0 && wrong%len(nums) == n {
			p := values[wrong/len(nums)].p
			data[p.Offset+p.Length()/2] ^= 4
		}
		f := mustCreate(t, fs, fmt.Sprint(num))
		if _, err := f.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		r, err := Open(f, int64(len(data)), num, testSalt, "r")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		for k, s := range values {
			found[n+k*len(nums)] = filed{s, r}
		}
	}
	return found
}

// loadFiled is loadRound for values in several files.
func loadFiled(a *Ahead, round []filed) {
	a.Begin()
	for _, s := range round {
		a.Add(s.r, &s.p, s.key, s.seq)
	}
	a.loadScan(AheadSize, func() int { return 2 })
}

func TestReadahead_FollowsAScanInEachOfItsFiles(t *testing.T) {
	t.Parallel()
	nums := make([]base.FileNum, 20)
	for i := range nums {
		nums[i] = base.FileNum(100 + 3*i)
	}
	values := inFiles(t, -1, nums...)
	var a Ahead
	defer a.Clear()
	const rounds = 4
	for n := range rounds {
		loadFiled(&a, values[n*AheadSize:(n+1)*AheadSize])
		untilEnded(t, &a)
	}
	verified := map[*Reader]int{}
	for _, s := range values[rounds*AheadSize:] {
		if s.r.v.Load().marks.has(s.p.Offset) {
			verified[s.r]++
		}
	}
	for i, num := range nums {
		if n := verified[values[i].r]; n < 20 || n > 210 {
			t.Errorf("%d values are verified ahead in file %d, want a twentieth of %d to %d bytes", n, num, readaheadMin, readaheadMax)
		}
	}
}

// A device is busy while the readahead verifies: the system has been asked for each part
// before the readahead waits for it.
func TestReadahead_AsksForEachPartBeforeItNeedsIt(t *testing.T) {
	t.Parallel()
	for _, nums := range [][]base.FileNum{{1}, {1, 2, 3, 5, 8, 13, 21}} {
		fs := faultfs.New(memfs.NewVolatile())
		values := inFilesOf(t, fs, -1, nums...)
		var mu sync.Mutex
		asked := map[string]int64{} // the end, by file
		parts, late := 0, 0
		fs.Observe(func(op vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			end := op.Off + op.Len
			switch {
			case op.Kind == vfs.OpWillNeed:
				asked[op.Path] = max(asked[op.Path], end)
			case op.Kind == vfs.OpPopulate:
				if parts++; end > asked[op.Path] {
					late++
				}
			}
		})
		var a Ahead
		rounds := len(values) / 2 / AheadSize
		for n := range rounds {
			loadFiled(&a, values[n*AheadSize:(n+1)*AheadSize])
			untilEnded(t, &a)
		}
		a.Clear()
		if parts < 10 || late > 0 {
			t.Errorf("%d files: of %d parts, %d were not asked for before", len(nums), parts, late)
		}
		most := int64(readaheadMax/len(nums) + readaheadAsk + 2*readaheadTurn)
		for i, num := range nums {
			last := values[rounds*AheadSize/len(nums)*len(nums)+i].p.Offset
			if ahead := asked[fmt.Sprint(num)] - last; ahead > most {
				t.Errorf("%d files: %d bytes ahead of the scan in file %d, want %d at most", len(nums), ahead, num, most)
			}
		}
	}
}

// inOneLane are the numbers of files for which a readahead has too few lanes.
var inOneLane = [...]base.FileNum{1, 1 + laneCount, 1 + 2*laneCount, 1 + 3*laneCount, 1 + 4*laneCount, 1 + 5*laneCount}

// A byte of each value is flipped in turn. A scan must report it, and find all others,
// however far the readahead is.
func TestReadahead_TheScanReportsEachDamagedValue(t *testing.T) {
	t.Parallel()
	for name, nums := range map[string][]base.FileNum{
		"one file":                        {1},
		"several files":                   {1, 2, 3, 5, 8},
		"more files than lanes":           inOneLane[:],
		"files of which some share lanes": append(inOneLane[:], 2, 3, 70),
	} {
		for _, wrong := range []int{-1, 0, 63, 64, 150, 300, 1000, 2999} {
			for _, wait := range []bool{false, true} {
				values := inFiles(t, wrong, nums...)
				found := scanFiled(t, values, wrong, wait)
				if wait && len(nums) < len(inOneLane) && found < len(values)*8/10 {
					t.Errorf("%s: the readahead verified %d of %d values", name, found, len(values))
				}
			}
		}
	}
}

// scanFiled scans values, of which number wrong is damaged. If wait is set, it waits for the
// readahead at each round. It returns how many values the scan found verified.
func scanFiled(t *testing.T, values []filed, wrong int, wait bool) (found int) {
	t.Helper()
	var a Ahead
	defer a.Clear()
	for from := 0; from < len(values); from += AheadSize {
		round := values[from:min(from+AheadSize, len(values))]
		loadFiled(&a, round)
		if wait {
			untilEnded(t, &a)
		}
		for i, s := range round {
			got, ok := a.Get(i, nil)
			if ok {
				found++
			} else {
				var err error
				if got, err = s.r.Get(s.p, s.key, s.seq, nil); (err != nil) != (from+i == wrong) {
					t.Fatalf("value %d with damage in value %d: %v", from+i, wrong, err)
				}
			}
			if from+i != wrong && !bytes.Equal(got, s.value) {
				t.Fatalf("value %d is wrong", from+i)
			}
			if ok && from+i == wrong {
				t.Fatalf("the damaged value %d was taken for verified", wrong)
			}
		}
	}
	return found
}

// A scan that jumps back while the readahead works must not lose its place to it.
func TestReadahead_ALaneThatTheScanLeftStaysAsItIs(t *testing.T) {
	t.Parallel()
	values := inFiles(t, -1, 1)
	var a Ahead
	ra := &a.forward
	load := func(from int) { // one processor: nothing runs beside the test
		a.Begin()
		for _, s := range values[from : from+AheadSize] {
			a.Add(s.r, &s.p, s.key, s.seq)
		}
		ra.note(a.reads[:a.n], a.lookUp())
	}
	ra.course = new(course)
	load(1000)
	load(1000 + AheadSize)
	l, until := ra.next()
	if l.v == nil || until <= l.at {
		t.Fatalf("lane %+v until %d, want one to follow", l, until)
	}
	load(0)
	l.at = until
	ra.passed(&l, nil)
	if now := ra.lanes[ra.turn]; now.at != 0 {
		t.Errorf("the readahead passed %d, want none of the new place", now.at)
	}
	load(AheadSize)
	if l, _ := ra.next(); l.v == nil || l.at != l.scan || l.at >= until {
		t.Errorf("lane %+v, want one at the new place", l)
	}
}

func TestReadahead_ClearEndsIt(t *testing.T) {
	t.Parallel()
	values := inFileOrder()
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	for range 50 {
		r, err := openBytes(t, data, testSalt)
		if err != nil {
			t.Fatal(err)
		}
		var a Ahead
		for from := 0; from < 4*AheadSize; from += AheadSize {
			loadRound(&a, r, values[from:from+AheadSize])
		}
		a.Clear()
		if a.forward.running.Load() {
			t.Fatal("the readahead outlives the scan")
		}
		if err := r.Close(); err != nil { // unmaps the file
			t.Fatal(err)
		}
	}
}
