package follow

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// env has the directory that a process of its own follows.
const env = "STOAT_TEST_FOLLOW"

// TestMain runs the tests, or a follower in a process of its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv(env); dir != "" {
		if err := followUntilEOF(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// followUntilEOF follows a database until the end of the standard input. For each line of
// it, it prints the version and the value of the key "last", after a Refresh. At the end it
// prints when it saw which version by itself.
func followUntilEOF(dir string) error {
	db, err := stoat.OpenFollower(dir, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Println("ready")
	var ended atomic.Bool
	sightings := make(chan []sighting)
	go func() { sightings <- watch(db, &ended) }()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := db.Refresh(context.Background()); err != nil {
			return err
		}
		err := db.View(func(tx stoat.Txn) error {
			last, err := tx.Get([]byte("last"))
			fmt.Println(tx.ReadVersion(), string(last))
			return err
		})
		if err != nil {
			return err
		}
	}
	ended.Store(true)
	for _, x := range <-sightings {
		fmt.Println(x.at, x.version)
	}
	return nil
}

// A sighting is the time in nanoseconds at which a follower first showed a version.
type sighting struct {
	at      int64
	version uint64
}

// watch looks every five milliseconds which version a follower shows.
func watch(db *stoat.DB, ended *atomic.Bool) (all []sighting) {
	for before := uint64(0); !ended.Load(); time.Sleep(5 * time.Millisecond) {
		_ = db.View(func(tx stoat.Txn) error {
			if v := tx.ReadVersion(); v != before {
				all, before = append(all, sighting{time.Now().UnixNano(), v}), v
			}
			return nil
		})
	}
	return all
}

// A process is a follower in a process of its own.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startProcess(t testing.TB, dir string) *process {
	t.Helper()
	exe, err := os.Executable()
	testkit.Must(t, err)
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), env+"="+dir)
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	testkit.Must(t, err)
	out, err := p.cmd.StdoutPipe()
	testkit.Must(t, err)
	p.out = bufio.NewScanner(out)
	testkit.Must(t, p.cmd.Start())
	if line := p.line(); line != "ready" {
		t.Fatalf("the follower says %q", line)
	}
	return p
}

func (p *process) line() string {
	if !p.out.Scan() {
		return "nothing"
	}
	return p.out.Text()
}

// end ends the process, and returns what it saw.
func (p *process) end(t testing.TB) (all []sighting) {
	t.Helper()
	testkit.Must(t, p.in.Close())
	for p.out.Scan() {
		var x sighting
		_, err := fmt.Sscan(p.out.Text(), &x.at, &x.version)
		testkit.Must(t, err)
		all = append(all, x)
	}
	testkit.Must(t, p.cmd.Wait())
	return all
}

func TestFollower_InAnotherProcessSeesEachCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := &stoat.Options{MemtableSize: testkit.SmallMemtable}
	db, err := stoat.Open(dir, opts)
	testkit.Must(t, err)
	p := startProcess(t, dir)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		if i%20 == 19 {
			testkit.Must(t, db.Close())
			db, err = stoat.Open(dir, opts)
			testkit.Must(t, err)
		}
		var version uint64
		for n := 0; n <= rng.IntN(30); n++ {
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			testkit.Must(t, tx.Set(testkit.Key(rng.IntN(100)), []byte(strings.Repeat("x", 3000))))
			testkit.Must(t, tx.Set([]byte("last"), fmt.Append(nil, i, n)))
			testkit.Must(t, tx.Commit(stoat.WithDurability(stoat.Buffered)))
			version = tx.CommitVersion()
		}
		var want string
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			last, err := tx.Get([]byte("last"))
			want = fmt.Sprint(version, " ", string(last))
			return err
		}))
		if _, err := io.WriteString(p.in, "\n"); err != nil {
			t.Fatal(err)
		}
		if got := p.line(); got != want {
			t.Fatalf("commit %d: the follower says %q, want %q", i, got, want)
		}
	}
	testkit.Must(t, db.Close())
	p.end(t)
}

// BenchmarkFollowers commits 50,000 small transactions a second, and measures the
// durations of commits without followers and beside two processes that follow, in turns.
// It also measures how long after the end of its commit followers show a version.
func BenchmarkFollowers(b *testing.B) {
	var alone, followed, lags []time.Duration
	for i := 0; b.Loop(); i++ {
		for j := range 2 {
			took, some := measureFollowers(b, 2*((i+j)%2))
			if lags = append(lags, some...); some == nil {
				alone = append(alone, took)
			} else {
				followed = append(followed, took)
			}
		}
	}
	slices.Sort(lags)
	slices.Sort(alone)
	slices.Sort(followed)
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	b.ReportMetric(micros(alone[len(alone)/2]), "p99-alone-µs")
	b.ReportMetric(micros(followed[len(followed)/2]), "p99-followed-µs")
	b.ReportMetric(micros(lags[len(lags)/2]), "lag-µs")
	b.ReportMetric(micros(lags[len(lags)*99/100]), "lag-p99-µs")
	b.ReportMetric(micros(lags[len(lags)-1]), "lag-max-µs")
	b.Logf("p99 of commits alone %v, followed %v", alone, followed)
}

// measureFollowers commits to a new database, beside so many followers. It returns the 99th
// percentile of the durations of commits, and the lags of followers.
func measureFollowers(b *testing.B, followers int) (p99 time.Duration, lags []time.Duration) {
	dir := b.TempDir()
	db, err := stoat.Open(dir, nil)
	testkit.Must(b, err)
	processes := make([]*process, followers)
	for i := range processes {
		processes[i] = startProcess(b, dir)
	}
	commitPaced(b, db, time.Second/2)
	p99, ends := commitPaced(b, db, 2*time.Second)
	for _, p := range processes {
		lags = append(lags, lagsOf(ends, p.end(b))...)
	}
	testkit.Must(b, db.Close())
	return p99, lags
}

// lagsOf returns how long after their ends a follower showed commits, 0 if before.
func lagsOf(ends map[uint64]int64, seen []sighting) (lags []time.Duration) {
	for version, end := range ends {
		i, _ := slices.BinarySearchFunc(seen, version, func(s sighting, v uint64) int { return cmp.Compare(s.version, v) })
		if i < len(seen) && i > 0 { // it was there
			lags = append(lags, time.Duration(max(0, seen[i].at-end)))
		}
	}
	return lags
}

// commitPaced commits 50 transactions a millisecond. It returns the 99th percentile of
// their durations, and when they ended, by version.
func commitPaced(t testing.TB, db *stoat.DB, d time.Duration) (p99 time.Duration, ends map[uint64]int64) {
	const each = 50
	n := each * int(d/time.Millisecond)
	type outcome struct {
		took    time.Duration
		end     int64
		version uint64
		err     error
	}
	outcomes := make(chan outcome, n)
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100)
	started := time.Now()
	for i := range n {
		if i%each == 0 {
			time.Sleep(time.Until(started.Add(time.Duration(i/each) * time.Millisecond)))
		}
		tx, err := db.Begin(stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Set(testkit.Key(rng.IntN(1_000_000)), value))
		begun := time.Now()
		tx.CommitAsync(func(version uint64, err error) {
			now := time.Now()
			outcomes <- outcome{now.Sub(begun), now.UnixNano(), version, err}
		})
	}
	took := make([]time.Duration, n)
	ends = make(map[uint64]int64, n)
	for i := range n {
		o := <-outcomes
		testkit.Must(t, o.err)
		took[i], ends[o.version] = o.took, o.end
	}
	slices.Sort(took)
	return took[n*99/100], ends
}
