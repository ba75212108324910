package workload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// peerMetrics are the metrics of each workload that the reports need.
var peerMetrics = map[string][]string{
	"populate":   {"load_keys_per_s", "load_batch_p99_ms", "settled_written_per_user_byte", "size_mb", "fresh_get_1_ns", "fresh_whole_ns"},
	"open":       {"open_ms", "close_ms", "first_get_ms"},
	"get":        {"get_1_ns", "get_16_ns", "hit_1_ns", "miss_16_ns", "whole_1_ns", "get_allocations"},
	"scan":       {"scan_ns", "keys_ns", "scan_whole_ns", "scan_first_ns"},
	"first-scan": {"first_whole_ns"},
	"first-ends": {"first_ends_ns"},
	"first-keys": {"first_keys_ns"},
	"cold-scan":  {"cold_scan_ns", "cold_scan_mb_per_s"},
	"cold-keys":  {"cold_keys_ns"},
	"cold-seek":  {"cold_seek_1_per_s", "cold_seek_16_per_s"},
	"cold-get":   {"cold_1_per_s", "cold_16_per_s"},
	"beside":     {"seek20_alone_ns", "seek20_beside_ns", "seek20_slowdown", "seek20_beside_max_us", "beside_puts_per_s"},
	"counter":    {"counter_per_s", "counter_conflicts", "counter_p99_us"},
	"queue":      {"queue_0_per_s", "queue_10000_per_s", "queue_100000_per_s", "queue_10000_p99_us"},
	"reopen":     {"reopened_1_ns", "reopened_4_ns"},
	"scale": {"load_keys_per_s", "settled_written_per_user_byte", "load_peak_anon_mb", "open_ms", "get_1_ns", "get_16_ns",
		"scan_whole_ns", "size_per_live_byte"},
	"seek":         {"seek_1_ns", "seek_16_ns"},
	"mixed-95":     {"mixed_per_s", "mixed_get_p999_us"},
	"mixed-50":     {"mixed_per_s", "mixed_put_p999_us", "mixed_get_p999_slowest_us"},
	"commit":       {"commit_1_per_s", "commit_16_p99_us", "commit_64_per_s"},
	"sorted":       {"load_keys_per_s"},
	"unique":       {"load_keys_per_s", "load_mb_per_s", "settled_written_per_user_byte"},
	"json":         {"load_keys_per_s", "whole_1_ns", "size_mb"},
	"delete":       {"delete_keys_per_s", "space_idle_mb", "space_collected_mb"},
	"churn":        {"total_s", "space_peak_per_live_byte", "space_end_per_live_byte", "overwrite_batch_p99_ms"},
	"limited-load": {"load_keys_per_s"},
	"limited-read": {"cold_1_per_s", "cold_16_per_s"},
	"many":         {"many_us", "one_by_one_us"},
	"cold-many":    {"cold_many_us", "cold_one_by_one_us"},
	"backup":       {"backup_mb_per_s", "backup_size_per_live_byte", "restore_mb_per_s"},
	"batch":        {"batch_keys_per_s"},
}

// This test runs each workload at a small scale on bbolt, which is always built
// in, and checks that the results have the metrics that the reports need.
func TestWorkloads_AllRunOnAPeer(t *testing.T) {
	t.Parallel()
	lacks := []string{"stream", "cold-stream", "ingest", "followers"}
	dirs := map[string]string{}
	for _, w := range All() {
		for _, data := range w.Data {
			if d, ok := FindDataset(data); !ok || d.Limited || d.Growth && data != w.Data[0] {
				continue // its data is too large for a test; make smoke runs it
			}
			if w.Keeps {
				dirs[data] = t.TempDir()
			}
			dir := dirs[data]
			if w.Changes {
				copied := t.TempDir()
				if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				dir = copied
			}
			if !w.Keeps && w.Fresh {
				dir = t.TempDir()
			}
			result := Execute(Job{Store: "bbolt", Workload: w.Name, Data: data, Scale: 0.001, Pace: testPace(), Dir: dir})
			if slices.Contains(lacks, w.Name) {
				if result.Status != Skipped || !strings.HasSuffix(result.Detail, HasNone) {
					t.Errorf("%s on %s: %s: %s, want it to be skipped", w.Name, data, result.Status, result.Detail)
				}
				continue
			}
			if result.Status != OK {
				t.Fatalf("%s on %s: %s: %s", w.Name, data, result.Status, result.Detail)
			}
			for _, metric := range peerMetrics[w.Name] {
				if _, ok := result.Metrics[metric]; !ok {
					t.Errorf("%s on %s has no %s", w.Name, data, metric)
				}
			}
		}
	}
}

// features maps a store to the workloads that need more than reads and writes of keys,
// with their metrics. The workloads that are not there must be skipped.
var features = map[string]map[string][]string{
	"badger": {
		"stream": {"stream_mb_per_s"}, "cold-stream": {"cold_stream_mb_per_s"}, "backup": {"restore_mb_per_s"},
		"batch": {"batch_keys_per_s", "applied_keys_per_s"}, "ingest": {"ingest_keys_per_s", "ingest_written_per_user_byte"},
		"many": {"many_us"},
	},
	"bbolt": {"checkpoint": {"checkpoint_ms"}, "backup": {"restore_mb_per_s"}, "batch": {"batch_keys_per_s"}, "many": {"many_us"}},
	"lmdb":  {"checkpoint": {"checkpoint_ms"}, "backup": {"restore_mb_per_s"}, "batch": {"batch_keys_per_s"}, "many": {"many_us"}},
	"pebble": {
		"checkpoint": {"checkpoint_ms"}, "batch": {"batch_keys_per_s"}, "ingest": {"ingest_keys_per_s", "files_write_s", "files_ingest_s"},
		"many": {"many_us"},
	},
	"rocksdb": {
		"checkpoint": {"checkpoint_ms"}, "batch": {"batch_keys_per_s"}, "ingest": {"ingest_keys_per_s", "files_write_s", "files_ingest_s"},
		"many": {"many_us"}, "followers": {"follow_p99_us"},
	},
	"stoat":           stoatFeatures,
	"stoat-encrypted": stoatFeatures,
}

var stoatFeatures = map[string][]string{
	"stream": {"stream_mb_per_s"}, "cold-stream": {"cold_stream_mb_per_s"}, "backup": {"backup_mb_per_s", "restore_mb_per_s"},
	"batch":  {"batch_keys_per_s", "applied_keys_per_s"},
	"ingest": {"ingest_keys_per_s", "files_keys_per_s", "files_ingest_s"}, "checkpoint": {"checkpoint_ms"},
	"followers": {"follow_p50_us", "follow_p99_us", "follow_commits_per_s"}, "many": {"many_us", "one_by_one_us"},
}

func TestFeatures_RunOnTheStoresThatHaveThem(t *testing.T) {
	t.Parallel()
	for store, wants := range features {
		if info, ok := stores.Find(store); !ok || info.Open == nil {
			continue
		}
		loaded := t.TempDir()
		run := func(name, dir string) Result {
			return Execute(Job{Store: store, Workload: name, Data: "1k", Scale: 0.001, Repeat: 1, Pace: testPace(), Dir: dir})
		}
		if result := run("populate", loaded); result.Status != OK {
			t.Fatalf("%s: populate: %s: %s", store, result.Status, result.Detail)
		}
		for _, name := range []string{"stream", "cold-stream", "backup", "batch", "checkpoint", "ingest", "followers", "many"} {
			dir := loaded
			if w, _ := Find(name); w.Fresh {
				dir = filepath.Join(t.TempDir(), "fresh")
			}
			result := run(name, dir)
			want, has := wants[name]
			if !has {
				reason := HasNone
				if store == "lmdb" && name == "followers" {
					reason = NotMeasured
				}
				if result.Status != Skipped || !strings.HasSuffix(result.Detail, reason) {
					t.Errorf("%s: %s: %s: %s, want it to be skipped", store, name, result.Status, result.Detail)
				}
				continue
			}
			if result.Status != OK {
				t.Errorf("%s: %s: %s: %s", store, name, result.Status, result.Detail)
			}
			for _, metric := range want {
				if result.Metrics[metric] <= 0 {
					t.Errorf("%s: %s has no %s", store, name, metric)
				}
			}
			if _, err := os.Stat(dir + ScratchSuffix); err == nil {
				t.Errorf("%s: %s leaves files beside its database", store, name)
			}
		}
	}
}

// A liar is a store in memory that gives one kind of wrong answer.
type liar struct {
	transactions sync.Mutex

	mu     sync.Mutex
	data   map[string][]byte
	wrong  string
	copies map[string]*liar // checkpoints by their directories
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

// Transact runs one transaction after the other.
func (l *liar) Transact(fn func(tx stores.Txn) error) (conflicts int, err error) {
	l.transactions.Lock()
	defer l.transactions.Unlock()
	return 0, fn(liarTxn{l})
}

// A liarTxn writes at once.
type liarTxn struct{ *liar }

func (t liarTxn) Get(key []byte) (value []byte, err error) {
	_, err = t.liar.Get(key, func(v []byte) error {
		value = bytes.Clone(v)
		return nil
	})
	return value, err
}

func (t liarTxn) First(fn func(key, value []byte) error) error {
	var first [2][]byte
	err := t.Scan(stores.ScanOptions{Limit: 1}, func(key, value []byte) error {
		first = [2][]byte{bytes.Clone(key), bytes.Clone(value)}
		return nil
	})
	return errors.Join(err, fn(first[0], first[1]))
}

func (t liarTxn) Set(key, value []byte) error {
	b := stores.NewBatch(nil)
	b.Set(key, value)
	if n := binary.BigEndian.Uint64(value); t.wrong == "ignores an overwrite" && n%5 == 0 || t.wrong == "counts in secret" && n == 5 {
		b.Reset()
		if t.wrong == "counts in secret" {
			b.Set(key, binary.BigEndian.AppendUint64(nil, n+1))
		}
	}
	return t.Apply(b)
}

func (t liarTxn) Delete(key []byte) error {
	b := stores.NewBatch(nil)
	b.Delete(key)
	return t.Apply(b)
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

func TestWarm_ReadsUntilARoundCausesNoWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		megabytes []int64 // of each round, which may remove files with dirty pages
		limit     time.Duration
		want      int
	}{
		{[]int64{0}, time.Hour, 1},
		{[]int64{40, 3, 0}, time.Hour, 3},
		{[]int64{40, -40, 0}, time.Hour, 3},
		{[]int64{40, 40}, 0, 1},
	} {
		written, round := int64(0), 0
		rounds, err := untilRest(func() error {
			written += c.megabytes[round] << 20
			round++
			return nil
		}, func() int64 { return written }, c.limit)
		if err != nil || rounds != c.want {
			t.Errorf("%v: %d rounds, %v, want %d", c.megabytes, rounds, err, c.want)
		}
	}
}

// closing is a store that needs two more opens until its log is empty.
type closing struct {
	*liar
	opens int
	dir   string
}

func (c *closing) Stats() string { return fmt.Sprintf("open %d", c.opens) }

func (c *closing) Close() error { return os.Truncate(filepath.Join(c.dir, "log"), int64(3-c.opens)) }

func TestLoad_SizeIsThatAfterTheStoreHasCleanedUp(t *testing.T) {
	t.Parallel()
	r := liarRun(t, "", testPace())
	store := &closing{liar: &liar{data: map[string][]byte{}}, dir: r.job.Dir}
	if err := os.WriteFile(filepath.Join(r.job.Dir, "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.info.Open = func(stores.Config) (stores.Store, error) {
		store.opens++
		return store, nil
	}
	if err := runSorted(r); err != nil {
		t.Fatal(err)
	}
	if size := r.result.Metrics["size_mb"]; size != 0 || store.opens != 3 || r.result.Stats != "open 1" {
		t.Errorf("%v MB after %d opens, statistics %q; want 0 MB after 3, and the statistics of the load", size, store.opens, r.result.Stats)
	}
}

// liarRun returns a run of a store with one kind of wrong answer.
func liarRun(t *testing.T, wrong string, pace Pace) *Run {
	t.Helper()
	store := &liar{data: map[string][]byte{}, wrong: wrong}
	return &Run{
		job:        Job{Workload: "get", Repeat: 1, Pace: pace, Dir: t.TempDir()},
		population: NewPopulation(500, Values{Size: 128}),
		result:     Result{Metrics: map[string]float64{}},
		info: stores.Info{Open: func(c stores.Config) (stores.Store, error) {
			if copied, ok := store.copies[c.Dir]; ok {
				return copied, nil
			}
			return store, nil
		}},
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
	"delete":   {runDelete, []string{"ignores a deletion", "loses what it acknowledged"}},
	"limited-load": {
		func(r *Run) error { return errors.Join(runLimitedLoad(r), runLimitedRead(r)) },
		[]string{"loses what it acknowledged"},
	},
	"limited-read": {filled(runLimitedRead), []string{"loses a key", "turns a bit of the end"}},
	"first-scan":   {filled(firstPass(scanPhase{whole: true})), []string{"scan turns a bit inside", "scan leaves out a key"}},
	"first-ends":   {filled(firstPass(scanPhase{})), []string{"scans out of order", "scan ends early"}},
	"first-keys":   {filled(firstPass(scanPhase{keysOnly: true})), []string{"scan leaves out a key", "scan repeats a key"}},
	"cold-scan":    {filled(coldPass(scanPhase{whole: true})), []string{"scan turns a bit inside", "scan leaves out a key"}},
	"cold-keys":    {filled(coldPass(scanPhase{keysOnly: true})), []string{"scan ends early", "scans out of order"}},
	"cold-seek":    {filled(runColdSeek), []string{"scan leaves out a key", "scans out of order"}},
	"cold-get":     {filled(runColdGet), []string{"loses a key", "turns a bit of the end"}},
	"beside":       {filled(runBeside), []string{"scan leaves out a key", "scan repeats a key"}},
	"counter":      {runCounter, []string{"ignores an overwrite", "counts in secret"}},
	"queue":        {runQueue, []string{"ignores a deletion", "loses what it acknowledged"}},
	"stream": {filled(runStream), []string{
		"loses what it acknowledged", "scan leaves out a key", "scan repeats a key", "scan turns a bit inside",
	}},
	"cold-stream": {filled(runColdStream), []string{"scan leaves out a key", "scan repeats a key", "scan turns a bit inside"}},
	"many":        {filled(runMany), []string{"loses a key of many", "finds what is absent", "turns a bit of the end", "mixes up the keys of many"}},
	"cold-many":   {filled(runColdMany), []string{"loses a key of many", "turns a bit of the end", "mixes up the keys of many"}},
	"backup":      {filled(runBackup), []string{"loses a key of a copy", "turns a bit of a copy"}},
	"checkpoint":  {filled(runCheckpoint), []string{"loses a key of a copy", "turns a bit of a copy"}},
	"batch":       {runBatch, []string{"loses what it acknowledged", "loses a key of a bulk", "scan turns a bit inside"}},
	"ingest":      {runIngest, []string{"ignores an overwrite", "loses a key of a file", "scan turns a bit inside"}},
	"followers":   {runFollow, []string{"follower stands still", "follower runs ahead", "loses a key of a copy"}},
	"reopen":      {runReopen, []string{"loses what it acknowledged", "scan turns a bit inside"}},
	"scale":       {runScale, []string{"loses what it acknowledged", "scan turns a bit inside"}},
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
				// A starved machine does little in a short phase. So the phases grow
				// until the workload meets the lie.
				pace := testPace()
				err := c.run(liarRun(t, wrong, pace))
				for wrong != "" && err == nil && pace.Phase < 10*time.Second {
					pace.Phase, pace.Limit = 4*pace.Phase, 4*pace.Limit
					err = c.run(liarRun(t, wrong, pace))
				}
				wantJudged(t, wrong, err)
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
