package workload

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// testPace has the shortest phases.
func testPace() Pace {
	return Pace{Warm: time.Millisecond, Phase: 10 * time.Millisecond, Quiet: 100 * time.Millisecond, Limit: time.Second}
}

// This test runs each workload at a small scale on bbolt, which is always built
// in, and checks that the results have the metrics that the reports need.
func TestWorkloads_AllRunOnAPeer(t *testing.T) {
	t.Parallel()
	wants := map[string][]string{
		"populate":     {"load_keys_per_s", "load_batch_p99_ms", "settled_written_per_user_byte", "size_mb", "fresh_get_1_ns", "fresh_scan_ns"},
		"open":         {"open_ms", "close_ms", "first_get_ms"},
		"get":          {"get_1_ns", "get_16_ns", "hit_1_ns", "miss_16_ns", "whole_1_ns", "get_allocations"},
		"scan":         {"scan_ns", "keys_ns", "scan_whole_ns", "scan_first_ns"},
		"seek":         {"seek_1_ns", "seek_16_ns"},
		"mixed-95":     {"mixed_per_s", "mixed_get_p999_us"},
		"mixed-50":     {"mixed_per_s", "mixed_put_p999_us", "mixed_get_p999_slowest_us"},
		"commit":       {"commit_1_per_s", "commit_16_p99_us", "commit_64_per_s"},
		"sorted":       {"load_keys_per_s"},
		"unique":       {"load_keys_per_s", "load_mb_per_s", "settled_written_per_user_byte"},
		"json":         {"load_keys_per_s", "whole_1_ns", "size_mb"},
		"delete":       {"delete_keys_per_s", "space_idle_mb", "space_collected_mb"},
		"churn":        {"total_s", "space_peak_per_live_byte", "space_end_per_live_byte", "overwrite_batch_p99_ms"},
		"queue":        {"queue_new_per_s", "queue_old_per_s", "queue_old_p99_us"},
		"limited-load": {"load_keys_per_s"},
		"limited-read": {"cold_1_per_s", "cold_16_per_s"},
	}
	dirs := map[string]string{}
	for _, w := range All() {
		for _, data := range w.Data {
			if data == "limited" {
				continue // its data is too large for a test; make smoke runs it
			}
			if w.Fresh {
				dirs[data] = t.TempDir()
			}
			dir := dirs[data]
			if !w.Keeps && w.Fresh {
				dir = t.TempDir()
			}
			result := Execute(Job{Store: "bbolt", Workload: w.Name, Data: data, Scale: 0.001, Pace: testPace(), Dir: dir})
			if result.Status != OK {
				t.Fatalf("%s on %s: %s: %s", w.Name, data, result.Status, result.Detail)
			}
			for _, metric := range wants[w.Name] {
				if _, ok := result.Metrics[metric]; !ok {
					t.Errorf("%s on %s has no %s", w.Name, data, metric)
				}
			}
		}
	}
}

// A liar is a store in memory that gives one kind of wrong answer.
type liar struct {
	mu    sync.Mutex
	data  map[string][]byte
	wrong string
}

func (l *liar) Apply(b *stores.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range b.Len() {
		op := b.At(i)
		_, known := l.data[string(op.Key)]
		unlucky := op.Key[KeySize-1] == '7'
		switch {
		case l.wrong == "ignores a deletion" && op.Delete && unlucky:
		case l.wrong == "ignores an overwrite" && known && unlucky:
		case l.wrong == "loses what it acknowledged" && unlucky:
		case op.Delete:
			delete(l.data, string(op.Key))
		default:
			l.data[string(op.Key)] = bytes.Clone(op.Value)
		}
	}
	return nil
}

func (l *liar) NewReader() (stores.Reader, error) { return l, nil }
func (l *liar) Collect() error                    { return nil }
func (l *liar) Sync() error                       { return nil }
func (l *liar) Stats() string                     { return "" }
func (l *liar) Close() error                      { return nil }

func (l *liar) Get(key []byte, fn func([]byte) error) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, ok := l.data[string(key)]
	switch {
	case l.wrong == "finds what is absent" && !ok:
		return true, fn(make([]byte, 128))
	case l.wrong == "loses a key" && ok && key[KeySize-1] == '7':
		return false, nil
	case l.wrong == "turns a bit of the end" && ok:
		value = bytes.Clone(value)
		value[len(value)-1] ^= 1
	case l.wrong == "turns a bit inside" && ok:
		value = bytes.Clone(value)
		value[len(value)/2] ^= 1
	}
	if !ok {
		return false, nil
	}
	return true, fn(value)
}

func (l *liar) Scan(o stores.ScanOptions, fn func(key, value []byte) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []string
	for key := range l.data {
		if key >= string(o.From) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	switch {
	case len(keys) < 2:
	case l.wrong == "scans out of order":
		keys[0], keys[1] = keys[1], keys[0]
	case l.wrong == "scan leaves out a key":
		keys = slices.Delete(keys, 1, 2)
	case l.wrong == "scan ends early":
		keys = keys[:len(keys)-1]
	case l.wrong == "scan repeats a key":
		keys = slices.Insert(keys, 1, keys[0])
	}
	for i, key := range keys {
		if o.Limit > 0 && i == o.Limit {
			break
		}
		value := l.data[key]
		if l.wrong == "scan turns a bit inside" {
			value = bytes.Clone(value)
			value[len(value)/2] ^= 1
		}
		if err := fn([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}

// liarRun returns a run of a store with one kind of wrong answer.
func liarRun(t *testing.T, wrong string) *Run {
	t.Helper()
	store := &liar{data: map[string][]byte{}, wrong: wrong}
	return &Run{
		job:        Job{Workload: "get", Pace: testPace(), Dir: t.TempDir()},
		population: NewPopulation(500, Values{Size: 128}),
		result:     Result{Metrics: map[string]float64{}},
		info:       stores.Info{Open: func(stores.Config) (stores.Store, error) { return store, nil }},
	}
}

// fill writes the data that the reading workloads expect.
func fill(r *Run) error {
	s, err := r.open(stores.Config{})
	if err != nil {
		return err
	}
	l, err := r.drawLoad(s, 2)
	if err != nil {
		return err
	}
	_, err = l.run()
	return err
}

// filled fills a store before a workload that reads.
func filled(work func(*Run) error) func(*Run) error {
	return func(r *Run) error { return errors.Join(fill(r), work(r)) }
}

// liesFound lists the wrong answers that each workload must detect. The limited
// load reads nothing, so the limited reads detect its wrong answers.
var liesFound = map[string]struct {
	run  func(*Run) error
	lies []string
}{
	"populate": {runPopulate, []string{
		"loses what it acknowledged", "finds what is absent", "turns a bit of the end", "scan leaves out a key", "scan ends early",
	}},
	"open": {filled(runOpen), []string{"turns a bit of the end"}},
	"get": {filled(runGet), []string{
		"loses what it acknowledged", "finds what is absent", "loses a key", "turns a bit of the end", "turns a bit inside",
	}},
	"scan": {filled(runScan), []string{
		"loses what it acknowledged", "scans out of order", "scan leaves out a key", "scan ends early", "scan repeats a key", "scan turns a bit inside",
	}},
	"seek":     {filled(runSeek), []string{"loses what it acknowledged", "scans out of order", "scan leaves out a key", "scan repeats a key"}},
	"mixed-95": {filled(runMixed95), []string{"ignores an overwrite", "loses a key", "turns a bit of the end"}},
	"mixed-50": {filled(runMixed50), []string{"ignores an overwrite", "loses a key", "turns a bit of the end"}},
	"commit":   {runCommit, []string{"loses what it acknowledged", "scan ends early"}},
	"sorted":   {runSorted, []string{"loses what it acknowledged", "scan ends early"}},
	"unique":   {runUnique, []string{"loses what it acknowledged", "scan ends early"}},
	"json":     {runJSON, []string{"loses what it acknowledged", "turns a bit inside", "scan leaves out a key"}},
	"churn":    {runChurn, []string{"ignores an overwrite", "loses what it acknowledged"}},
	"queue":    {runQueue, []string{"ignores a deletion", "scans out of order", "scan leaves out a key"}},
	"delete":   {runDelete, []string{"ignores a deletion", "loses what it acknowledged"}},
	"limited-load": {
		func(r *Run) error { return errors.Join(runLimitedLoad(r), runLimitedRead(r)) },
		[]string{"loses what it acknowledged"},
	},
	"limited-read": {filled(runLimitedRead), []string{"loses a key", "turns a bit of the end"}},
}

func TestWorkloads_AllFindWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, w := range All() {
		c, ok := liesFound[w.Name]
		if !ok {
			t.Errorf("no lie that %s finds", w.Name)
			continue
		}
		for _, wrong := range append([]string{""}, c.lies...) {
			t.Run(w.Name+" "+wrong, func(t *testing.T) {
				t.Parallel()
				wantJudged(t, wrong, c.run(liarRun(t, wrong)))
			})
		}
	}
}

// wantJudged fails the test if the workload does not detect the liar.
func wantJudged(t *testing.T, wrong string, err error) {
	t.Helper()
	want := OK
	if wrong != "" {
		want = Wrong
	}
	if got := statusOf(err); got != want {
		t.Errorf("a store that %q ends %s, want %s: %v", wrong, got, want, err)
	}
}

func TestMixture_StaleAnswersAreFound(t *testing.T) {
	t.Parallel()
	m := &mixture{epoch: 2, present: NewBitset(10)}
	m.present.Set(1)
	cases := []struct {
		number, version uint64
		found           bool
		least, most     uint32
		right           bool
	}{
		{1, 2<<32 | 5, true, 5, 5, true},
		{1, 2<<32 | 6, true, 5, 6, true},
		{1, 2<<32 | 4, true, 5, 6, false}, // older than acknowledged
		{1, 2<<32 | 7, true, 5, 6, false}, // not yet written
		{1, 0, true, 0, 1, true},          // version of the load
		{1, 0, true, 1, 1, false},         // version of the load, after a write
		{1, 1<<32 | 9, true, 0, 0, true},  // version of the mixture before
		{1, 3<<32 | 1, true, 0, 0, false}, // version of no mixture
		{1, 0, false, 0, 0, false},        // lost
		{2, 0, false, 0, 3, true},         // not yet written
		{2, 0, false, 1, 3, false},        // lost
	}
	for _, c := range cases {
		if err := m.judge(c.number, c.version, c.found, c.least, c.most); (err == nil) != c.right {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestExecute_UnknownJobsFailWithAReason(t *testing.T) {
	t.Parallel()
	for _, job := range []Job{
		{Store: "nosuch", Workload: "get", Data: "1k"},
		{Store: "bbolt", Workload: "nosuch", Data: "1k"},
		{Store: "bbolt", Workload: "get", Data: "nosuch"},
	} {
		result := Execute(job)
		if result.Status != Failed || !strings.Contains(result.Detail, "nosuch") {
			t.Errorf("%+v ends %s: %q", job, result.Status, result.Detail)
		}
	}
}
