package comparison

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// TestMain lets the test binary run as its own child, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildCommand {
		if err := RunChild(os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testPace() workload.Pace {
	return workload.Pace{
		Warm: time.Millisecond, Phase: 20 * time.Millisecond,
		Quiet: 100 * time.Millisecond, Limit: time.Second,
	}
}

func testPlan(t *testing.T, only string) Plan {
	t.Helper()
	p, err := NewPlan(only, true)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats, p.Scale, p.Pace, p.Dir = 1, 0.001, testPace(), t.TempDir()
	return p
}

func testRunner(t *testing.T, p Plan, path string) *Runner {
	t.Helper()
	w, err := Open(path, Settings{Scale: p.Scale, Pace: p.Pace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	// Measuring the machine takes longer than these tests.
	return &Runner{Plan: p, Record: w, Progress: NewProgress(null), SkipLimits: true, JobLimit: time.Minute}
}

func run(t *testing.T, r *Runner) (left int) {
	t.Helper()
	left, err := r.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func statuses(rec *Record) []string {
	var all []string
	for _, r := range rec.Results {
		all = append(all, r.Job.Store+" "+r.Job.Workload+" "+string(r.Status))
	}
	return all
}

func TestRun_StoresTakeTurnsAtEachWorkload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	p := testPlan(t, "bbolt,goleveldb,populate,open,128")
	r := testRunner(t, p, path)
	run(t, r)
	want := []string{"bbolt populate ok", "goleveldb populate ok", "goleveldb open ok", "bbolt open ok"}
	if got := statuses(r.Record.Record); !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	if err := p.Clean(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(p.Dir); err != nil || len(entries) != 0 {
		t.Errorf("%d entries are left in the directory, %v", len(entries), err)
	}
}

func TestRun_MeasuresTheMachineEachTime(t *testing.T) {
	r := testRunner(t, testPlan(t, "bbolt,open,128"), filepath.Join(t.TempDir(), "r.jsonl"))
	r.Plan.Workloads = nil
	r.SkipLimits = false
	run(t, r)
	run(t, r)
	limits := r.Record.Record.Limits
	if len(limits) != 2 || limits[0].Values["memory_copy_gb_per_s"] <= 0 || limits[1].Values["memory_copy_gb_per_s"] <= 0 {
		t.Errorf("limits %v, want those of the machine, twice", limits)
	}
}

func TestRun_PassesOverJobs(t *testing.T) {
	p := testPlan(t, "bbolt,populate,open,128")
	p.Repeats = 2
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	const reason = "far behind: " + OutOfContention
	r.PassOver = func(rec *Record, j workload.Job) string {
		if j.Repeat == 2 && j.Workload == "populate" && len(rec.Results) == 2 {
			return reason
		}
		return ""
	}
	run(t, r)
	got := r.Record.Record.Results
	if len(got) != 4 || got[2].Status != workload.Skipped || got[2].Detail != reason {
		t.Fatalf("results %+v, want the third skipped: %s", got, reason)
	}
	// The open of the second repeat uses the database of the first one.
	if got[3].Status != workload.OK {
		t.Errorf("the open is %s: %s, want ok", got[3].Status, got[3].Detail)
	}
	if left := p.Missing(r.Record.Record); left != 0 {
		t.Errorf("%d steps are left, want none", left)
	}
}

func TestRun_ResumesAfterAnInterruption(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	p := testPlan(t, "bbolt,goleveldb,populate,open,128")
	r := testRunner(t, p, path)
	run(t, r)

	// A killed run leaves half a line. The last result is lost.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	cut := strings.Join(lines[:len(lines)-2], "") + `{"result":{"jo`
	if err := os.WriteFile(path, []byte(cut), 0o600); err != nil {
		t.Fatal(err)
	}
	again := testRunner(t, p, path)
	before := len(again.Record.Record.Results)
	run(t, again)
	rec, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if before != 3 || len(rec.Results) != 4 || rec.Results[3].Status != workload.OK {
		t.Errorf("%d results, then %q; want 3, then 4 that are ok", before, statuses(rec))
	}
}

func TestRecord_HasNoNamesOfDirectories(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, err := Open(path, Settings{Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	const dir = "/somewhere/compare-databases/bbolt-1k"
	r := workload.Result{Job: workload.Job{Store: "bbolt", Dir: dir}, Detail: "open " + dir + "/bbolt.db: no", Stats: dir + " is full"}
	if err := errors.Join(w.AddResult(r), w.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "somewhere") || !strings.Contains(string(text), "open ./bbolt.db: no") {
		t.Errorf("the record has\n%s", text)
	}
}

func TestRecord_RefusesOtherSettings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, err := Open(path, Settings{Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Settings{Scale: 0.1}); !errors.Is(err, ErrOtherSettings) {
		t.Errorf("another scale is %v, want ErrOtherSettings", err)
	}
}

func TestRecord_KnowsTheMachineOfEachResult(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	slow, fast := Machine{Processor: "slow", Revision: "a"}, Machine{Processor: "fast", Revision: "a"}
	for i, m := range []Machine{slow, slow, fast} {
		w, err := Open(path, Settings{Machine: m})
		if err != nil {
			t.Fatal(err)
		}
		job := workload.Job{Store: "bbolt", Workload: "open", Data: "128", Repeat: i + 1}
		err = errors.Join(w.AddLimits(map[string]float64{"memory_copy_gb_per_s": 1}), w.AddResult(workload.Result{Job: job}), w.Close())
		if err != nil {
			t.Fatal(err)
		}
	}
	rec, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rec.Machines(), []Machine{slow, fast}) {
		t.Errorf("the machines are %+v, want the slow one and the fast one", rec.Machines())
	}
	for i, want := range []Machine{slow, slow, fast, {}} {
		if got := rec.MachineOf(i); got != want {
			t.Errorf("result %d is of %+v, want %+v", i, got, want)
		}
		if i < len(rec.Limits) && rec.Limits[i].Machine != want {
			t.Errorf("limits %d are of %+v, want %+v", i, rec.Limits[i].Machine, want)
		}
	}
}

func TestRecord_ReadsTheRevisionsOfOlderFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	const file = `{"settings":{"machine":{"processor":"p","revision":"a"}}}` + "\n" + `{"revision":"b"}` + "\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	rec, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Machine{{Processor: "p", Revision: "a"}, {Processor: "p", Revision: "b"}}; !slices.Equal(rec.Machines(), want) {
		t.Errorf("the machines are %+v, want %+v", rec.Machines(), want)
	}
}

func TestRecord_NotesAnotherRevision(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	for _, revision := range []string{"a", "a", "b", "b", "a"} {
		w, err := Open(path, Settings{Machine: Machine{Revision: revision}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Machine{{Revision: "a"}, {Revision: "b"}, {Revision: "a"}}
	if !slices.Equal(rec.Machines(), want) {
		t.Errorf("the machines are %+v, want %+v", rec.Machines(), want)
	}
}

func TestDeadline_LeavesStepsForLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	r := testRunner(t, testPlan(t, "bbolt,populate,open,128"), path)
	r.Deadline = time.Now().Add(-time.Second)
	if left := run(t, r); left != 2 {
		t.Errorf("%d steps are left, want 2", left)
	}
	r.Deadline = time.Time{}
	if left := run(t, r); left != 0 || len(r.Record.Record.Results) != 2 {
		t.Errorf("%d steps are left and %d done, want 0 and 2", left, len(r.Record.Record.Results))
	}
}

func TestDeadline_LeavesTheJobAtWorkForLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	p := testPlan(t, "bbolt,commit")
	p.Pace.Phase, p.Pace.Limit = time.Hour, time.Hour // the job does not end by itself
	r := testRunner(t, p, path)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	// The runner asks just before the job. So the deadline comes while the job is at work.
	r.PassOver = func(*Record, workload.Job) string {
		time.AfterFunc(20*time.Millisecond, func() { cancel(errLate) })
		return ""
	}
	left, err := r.Run(ctx)
	if err != nil || left != 1 || len(r.Record.Record.Results) != 0 {
		t.Errorf("%d steps are left, results %q, error %v, want one and none", left, statuses(r.Record.Record), err)
	}
}

func TestGoesOnWith_OnlyTheSamePlanAndMachine(t *testing.T) {
	t.Parallel()
	p := testPlan(t, "bbolt,open,128")
	s := Settings{Scale: p.Scale, Pace: p.Pace, Machine: Machine{Processors: 2, Revision: "a"}}
	step := p.Steps()[0]
	for _, c := range []struct {
		name   string
		change func(*Record)
		want   bool
	}{
		{"the same", func(*Record) {}, true},
		{"results not committed", func(r *Record) { r.Settings.Machine.Revision = "a" + changedSuffix }, true},
		{"another scale", func(r *Record) { r.Settings.Scale = 1 }, false},
		{"another revision", func(r *Record) { r.Settings.Machine.Revision = "b" }, false},
		{"gone on with by another revision", func(r *Record) { r.LaterMachines = []Machine{{Processors: 2, Revision: "b"}} }, false},
		{"another machine", func(r *Record) { r.Settings.Machine.Processors = 4 }, false},
		{"gone on with by another machine", func(r *Record) { r.LaterMachines = []Machine{{Processors: 4, Revision: "a"}} }, false},
		{"complete", func(r *Record) { r.Results = []workload.Result{{Job: step.Job}} }, false},
	} {
		rec := &Record{Settings: s}
		c.change(rec)
		if got := p.GoesOnWith(rec, s); got != c.want {
			t.Errorf("%s: resumes is %t, want %t", c.name, got, c.want)
		}
	}
}

func TestRecord_HasTheConfigurationOfItsStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	for range 2 {
		r := testRunner(t, testPlan(t, "bbolt,open,128"), path)
		r.Plan.Workloads = nil
		run(t, r)
	}
	rec, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := stores.Find("bbolt")
	if want := []StoreNote{{info.Name, info.Version, info.Options}}; !slices.Equal(rec.Stores, want) {
		t.Errorf("stores %+v, want %+v", rec.Stores, want)
	}
}

func TestStep_StoreThatIsNotBuiltInIsReported(t *testing.T) {
	p := testPlan(t, "bbolt,open,128")
	p.Stores = []stores.Info{{Name: "elsewhere", Missing: "not built in: needs a library"}}
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	run(t, r)
	got := r.Record.Record.Results
	if len(got) != 1 || got[0].Status != workload.Unavailable || got[0].Detail != p.Stores[0].Missing {
		t.Errorf("results %+v, want one that says what is missing", got)
	}
}

func TestStep_VariantSkipsDataThatItTreatsLikeThePlainStore(t *testing.T) {
	for only, want := range map[string]string{
		"pebble-blob,populate,128": "does not separate", "stoat-fast,populate,128": "do not compress",
	} {
		r := testRunner(t, testPlan(t, only), filepath.Join(t.TempDir(), "r.jsonl"))
		run(t, r)
		got := r.Record.Record.Results
		if len(got) != 1 || got[0].Status != workload.Skipped || !strings.Contains(got[0].Detail, want) {
			t.Errorf("%s: results %+v, want one skipped: %s", only, got, want)
		}
	}
}

func TestChild_ThatTakesTooLongIsEnded(t *testing.T) {
	r := testRunner(t, testPlan(t, "bbolt,commit"), filepath.Join(t.TempDir(), "r.jsonl"))
	r.JobLimit = time.Millisecond
	run(t, r)
	got := r.Record.Record.Results
	if len(got) != 1 || got[0].Status != workload.TimedOut {
		t.Errorf("results %+v, want one that timed out", got)
	}
}

func TestChild_CrashOfAStoreIsAResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A task that is neither a job nor the limits ends the child with an
	// error, as a panic of a store does.
	err := runChild(context.Background(), dir, task{}, time.Minute, new(workload.Result))
	var d *death
	if !errors.As(err, &d) || d.killed || !strings.Contains(d.output, "neither") {
		t.Errorf("the child ends with %v, want its death with what it said", err)
	}
	if got := judge(err); got != workload.Failed {
		t.Errorf("judged %s, want failed", got)
	}
	if got := judge(&death{err: err, killed: true}); got != workload.Killed {
		t.Errorf("judged %s, want killed", got)
	}
}

func TestMemoryLimit_OfALoadIsKept(t *testing.T) {
	p := testPlan(t, "bbolt,limited-load,limited-read")
	p.Scale = 0.0001
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	run(t, r)
	for _, result := range r.Record.Record.Results {
		if result.Status == workload.Skipped {
			t.Skip(result.Detail)
		}
		if result.Status != workload.OK {
			t.Errorf("%s ends %s: %s", result.Job.Workload, result.Status, result.Detail)
		}
		if peak := result.Metrics["peak_rss_mb"] + result.Metrics["load_peak_rss_mb"]; peak > float64(workload.LimitedBytes(p.Scale))/1e6 {
			t.Errorf("%s takes %.0f MB under a limit of %d", result.Job.Workload, peak, workload.LimitedBytes(p.Scale))
		}
	}
	if len(r.Record.Record.Results) != 2 {
		t.Errorf("%d results, want 2", len(r.Record.Record.Results))
	}
}

func TestSteps_RareWorkloadsRunInOneRepeatOfThree(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("pebble", false)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats = 4
	count := map[string]int{}
	for _, s := range p.Steps() {
		count[s.Job.Workload+" "+s.Job.Data]++
	}
	for _, want := range []struct {
		name string
		n    int
	}{{"populate 16k", 4}, {"get 128", 4}, {"churn 1k", 4}, {"limited-load limited", 4}, {"scale 128-50m", 2}} {
		if count[want.name] != want.n {
			t.Errorf("%s runs %d times, want %d", want.name, count[want.name], want.n)
		}
	}
}

func TestSteps_EverythingRunsOnceBeforeAnythingRunsTwice(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("bbolt,lmdb", false)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats = 3
	last := 1
	for _, s := range p.Steps() {
		if s.Job.Repeat < last {
			t.Fatalf("%s of repeat %d comes after repeat %d", s.Job.Workload, s.Job.Repeat, last)
		}
		last = s.Job.Repeat
	}
}

func TestSteps_AnotherStoreBeginsEachWorkloadAndRepeat(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("stoat,pebble,bbolt,lmdb,populate,get,commit,counter,queue,batch,churn,128,1k", false)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats = 3
	turn := func(j workload.Job) workload.Job {
		return workload.Job{Workload: j.Workload, Data: j.Data, Repeat: j.Repeat}
	}
	var last workload.Job
	began := map[workload.Job]string{}
	for _, s := range p.Steps() {
		now := turn(s.Job)
		if now == last {
			continue
		}
		earlier := now
		earlier.Repeat--
		if s.Job.Store == began[earlier] || s.Job.Store == began[last] && now.Repeat == last.Repeat {
			t.Errorf("%s begins %+v, as it began the repeat or the workload before", s.Job.Store, now)
		}
		began[now], last = s.Job.Store, now
	}
}

func TestSteps_SlowStoresComeLastUnderTheLimit(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("badger,pebble,bbolt,lmdb,goleveldb,limited-load,limited-read", false)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats = 1
	var got []string
	for _, s := range p.Steps() {
		got = append(got, s.Job.Store+" "+s.Job.Workload)
	}
	var want []string
	for _, store := range []string{"pebble", "goleveldb", "lmdb", "bbolt", "badger"} {
		want = append(want, store+" limited-load", store+" limited-read")
	}
	if !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

func TestPlan_NamedWorkloadsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("mixed-50,mixed-95,populate,lmdb,bbolt", true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"populate", "mixed-95", "mixed-50"}
	if got := workloadNames(p.Workloads); !slices.Equal(got, want) {
		t.Errorf("workloads %q, want %q", got, want)
	}
	if got := storeNames(p.Stores); !slices.Equal(got, []string{"bbolt", "lmdb"}) {
		t.Errorf("stores %q", got)
	}
}

func TestRun_EachRepeatLoadsAndReads(t *testing.T) {
	p := testPlan(t, "bbolt,1k,populate,open,mixed-95,mixed-50")
	p.Repeats = 2
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	run(t, r)
	want := []string{
		"bbolt populate ok", "bbolt open ok", "bbolt mixed-95 ok", "bbolt mixed-50 ok",
		"bbolt populate ok", "bbolt open ok", "bbolt mixed-95 ok", "bbolt mixed-50 ok",
	}
	if got := statuses(r.Record.Record); !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	if entries, err := os.ReadDir(p.Dir); err != nil || len(entries) != 2 { // the files between parent and child
		t.Errorf("%d entries are left in the directory, %v", len(entries), err)
	}
}

func TestSpace_ReadsOfALoadedDatabaseNeedLittle(t *testing.T) {
	p := testPlan(t, "bbolt,populate,open,beside,1k")
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	free, err := measure.FreeSpace(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	// The disk has 4.5 times the data.
	d, _ := workload.FindDataset("1k")
	scale := float64(free) / 4.5 / float64(d.Count*uint64(workload.KeySize+d.Values.Size))
	for _, loadedBefore := range []bool{false, true} {
		for _, s := range p.Steps() {
			s.Job.Scale = scale
			if loadedBefore {
				if err := mark(s.Job); err != nil {
					t.Fatal(err)
				}
			}
			err := r.enoughSpace(s)
			if want := loadedBefore && s.Job.Workload == "open"; (err == nil) != want {
				t.Errorf("%s, loaded before: %t: %v, want enough space: %t", s.Job.Workload, loadedBefore, err, want)
			}
		}
	}
}

func TestSpace_ALoadReplacesItsDatabase(t *testing.T) {
	p := testPlan(t, "bbolt,populate,1k")
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	s := p.Steps()[0]
	const held = 64 << 20
	if err := errors.Join(os.MkdirAll(s.Job.Dir, 0o755), os.WriteFile(filepath.Join(s.Job.Dir, "old"), make([]byte, held), 0o600)); err != nil {
		t.Fatal(err)
	}
	free, err := measure.FreeSpace(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	// The load needs what is free, and half of the old database.
	d, _ := workload.FindDataset("1k")
	s.Job.Scale = float64(free+held/2) / spaceFactor / float64(d.Count*uint64(workload.KeySize+d.Values.Size))
	if err := r.enoughSpace(s); err != nil {
		t.Error(err)
	}
}

func TestRun_ALoadThatDidNotRunIsNoFailureOfTheStore(t *testing.T) {
	for status, want := range map[workload.Status]workload.Status{
		workload.Unavailable: workload.OK, workload.Skipped: workload.OK, workload.Failed: workload.Skipped,
	} {
		p := testPlan(t, "bbolt,populate,open,128")
		r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
		// An earlier run lacked the library or the space, or the store failed.
		if err := r.Record.AddResult(workload.Result{Job: p.Steps()[0].Job, Status: status}); err != nil {
			t.Fatal(err)
		}
		run(t, r)
		got := r.Record.Record.Results
		if len(got) != 2 || got[1].Job.Workload != "open" || got[1].Status != want {
			t.Errorf("after a load that ended %s: %q, want an open that is %s", status, statuses(r.Record.Record), want)
		}
	}
}

func TestRun_DatabaseOfAnotherScaleIsLoadedAgain(t *testing.T) {
	p := testPlan(t, "bbolt,populate,128")
	p.Scale = 0.003
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	// An incomplete run leaves its database.
	steps := p.Steps()
	steps[0].Frees = nil
	r.Progress.begin(steps)
	if err := r.take(context.Background(), steps[0]); err != nil {
		t.Fatal(err)
	}
	p = testPlan(t, "bbolt,scan,128")
	p.Dir = r.Plan.Dir
	again := testRunner(t, p, filepath.Join(t.TempDir(), "again.jsonl"))
	run(t, again)
	if got := again.Record.Record.Results; len(got) != 1 || got[0].Status != workload.OK {
		t.Errorf("results %+v, want a scan of what was loaded at its own scale", got)
	}
}

// Otherwise the databases of all workloads lie on the disk until the last repeat.
func TestPlan_EachRepeatFreesWhatItLoads(t *testing.T) {
	t.Parallel()
	for only, want := range map[string][]string{
		"bbolt,populate,get,batch,128": {
			"get 1: bbolt-128", "batch 1: bbolt-128-batch", "get 2: bbolt-128", "batch 2: bbolt-128-batch",
		},
		// No step loads it, so the second repeat reads what the first one loaded.
		"bbolt,get,checkpoint,128": {"checkpoint 1: bbolt-128-copy", "checkpoint 2: bbolt-128", "checkpoint 2: bbolt-128-copy"},
		// The databases under the memory limit are the largest: one at a time.
		"bbolt,goleveldb,limited-load,cold-get": {
			"cold-get 1: goleveldb-limited", "cold-get 1: bbolt-limited", "cold-get 2: goleveldb-limited", "cold-get 2: bbolt-limited",
		},
	} {
		p := testPlan(t, only)
		p.Repeats = 2
		var freed []string
		for _, s := range p.Steps() {
			for _, dir := range s.Frees {
				freed = append(freed, fmt.Sprintf("%s %d: %s", s.Job.Workload, s.Job.Repeat, filepath.Base(dir)))
			}
		}
		if !slices.Equal(freed, want) {
			t.Errorf("the steps of %s free %q, want %q", only, freed, want)
		}
	}
}

func TestPlan_AQuickOneLeavesOutLargeDataUnlessNamed(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]bool{"": false, "pebble,get": false, "scale": true, "limited": true, "cold-seek": true, "cold-scan": false} {
		p, err := NewPlan(only, true)
		if err != nil {
			t.Fatal(err)
		}
		p.Repeats = 1
		if got := slices.ContainsFunc(p.Steps(), func(s Step) bool { return isLarge(s.Job.Data) }); got != want {
			t.Errorf("the quick plan of %q has large data: %t, want %t", only, got, want)
		}
	}
}

func TestPlan_ABriefOneHasEveryWorkload(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("stoat", false)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats = 1
	seen := map[string]int{}
	for _, s := range p.Brief().Steps() {
		seen[s.Workload.Name]++
	}
	for _, w := range workload.All() {
		if seen[w.Name] == 0 {
			t.Errorf("no %s", w.Name)
		}
	}
	if seen["populate"] != 3 || seen["reopen"] != 1 || seen["cold-scan"] != 2 {
		t.Errorf("%v, want three loads, one reopen and two cold scans", seen)
	}
}

func TestPlan_OnlyTheStoresThatGrowRunTheScale(t *testing.T) {
	t.Parallel()
	p, err := NewPlan("scale", false)
	if err != nil {
		t.Fatal(err)
	}
	p.Repeats = 1
	count := map[string]int{}
	for _, s := range p.Brief().Steps() {
		count[s.Job.Store]++
	}
	for _, s := range p.Steps() {
		count["all "+s.Job.Store]++
	}
	if count["pebble"] != 1 || count["all pebble"] != 14 || count["bbolt"]+count["all bbolt"] != 0 {
		t.Errorf("%v, want one first point and 14 points of pebble, and none of bbolt", count)
	}
}

func TestRun_FirstPassesAreMediansOfSeveralProcesses(t *testing.T) {
	p := testPlan(t, "bbolt,first-scan,128")
	p.Pace.Processes = 3
	r := testRunner(t, p, filepath.Join(t.TempDir(), "r.jsonl"))
	run(t, r)
	got := r.Record.Record.Results
	if len(got) != 1 || got[0].Status != workload.OK || got[0].Metrics["first_whole_ns"] <= 0 || got[0].Metrics["processes"] != 3 {
		t.Errorf("results %+v, want one with the median of three processes", got)
	}
}

func TestMachine_ReadAheadIsANumberOrUnknown(t *testing.T) {
	t.Parallel()
	if text := ThisMachine(t.TempDir()).ReadAhead; strings.Trim(text, "0123456789") != "" {
		t.Errorf("the read-ahead is %q", text)
	}
}

func TestPlan_UnknownNameListsTheKnownOnes(t *testing.T) {
	t.Parallel()
	_, err := NewPlan("bbolt,gte", true)
	if err == nil || !strings.Contains(err.Error(), `"gte"`) || !strings.Contains(err.Error(), "seek") {
		t.Errorf("%v, want the unknown name and the known ones", err)
	}
}
