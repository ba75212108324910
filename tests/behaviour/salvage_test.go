package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const rescued = "/rescued"

// richOptions are the options of a database that uses most features.
func richOptions(disk *memfs.FS, keys stoat.KeyProvider) *stoat.Options {
	return &stoat.Options{FS: disk, Keys: keys, NumVersions: 100, MemtableSize: testkit.SmallMemtable,
		MergeFunction: merge.Append.Name(), MergeFunctions: []stoat.MergeFunction{merge.Append}}
}

// rich makes a database with keyspaces, merges, renewals, timestamps, expiry, user bytes,
// values of all lengths, and perhaps range deletions, in tables and in the log.
func rich(t *testing.T, keys stoat.KeyProvider, ranges bool) *memfs.FS {
	t.Helper()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, richOptions(disk, keys))
	testkit.Must(t, err)
	other, err := db.Keyspace("other", &stoat.KeyspaceOptions{NumVersions: 100})
	testkit.Must(t, err)
	timed := timed(t, db)
	for round := range 3 {
		for i := range 40 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				value := []byte(strings.Repeat(fmt.Sprint(round, i, "."), 1+i*i*3))
				err := errors.Join(tx.Set(testkit.Key(i), value, stoat.UserMeta(byte(i))),
					tx.In(other).Set(testkit.Key(i), value[:i+1], stoat.TTL(time.Hour)),
					tx.Merge(testkit.Key(100+i%7), []byte(fmt.Sprint(round, i, ";"))),
					tx.In(timed).At(uint64(100*round+i)).Set(testkit.Key(i%5), value[:2*i+1]))
				if i%11 == 3 {
					err = errors.Join(err, tx.Delete(testkit.Key(i-1)), tx.In(timed).At(uint64(100*round+i)).Delete(testkit.Key(7)))
				}
				if i%13 == 5 {
					err = errors.Join(err, tx.Renew(testkit.Key(i), stoat.TTL(2*time.Hour)))
				}
				if ranges && i%13 == 6 {
					err = errors.Join(err, tx.DeleteRange(testkit.Key(i-4), testkit.Key(i-2)))
				}
				return err
			}))
		}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return tx.SetReader([]byte("long"), testkit.Patterned(700<<10))
		}))
		if round == 1 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
	}
	testkit.Must(t, db.Close())
	return disk
}

// transcript returns all that can be read of a database, with the names of keyspaces as
// given.
func transcript(t *testing.T, dir string, disk *memfs.FS, keys stoat.KeyProvider, other, timed string) string {
	t.Helper()
	db, err := stoat.Open(dir, richOptions(disk, keys))
	testkit.Must(t, err)
	var out strings.Builder
	a, err := db.Keyspace(other, nil)
	testkit.Must(t, err)
	b, err := db.Keyspace(timed, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, tx := range []stoat.Txn{tx, tx.In(a)} {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true})
			if err != nil {
				return err
			}
			for _, item := range items {
				if item.Deleted {
					continue // without a manifest, obsolete files may have more of them
				}
				fmt.Fprintln(&out, item.Key, item.Version)
			}
		}
		it := tx.In(b).At(1 << 40).Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		for it.Next() {
			fmt.Fprintf(&out, "%s at %d: %s, deleted %t\n", it.Key(), it.Item().Timestamp(), it.Value(), it.Item().Deleted())
		}
		return it.Err()
	}))
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
	return out.String()
}

func TestSalvage_KeepsAllThatADatabaseHas(t *testing.T) {
	t.Parallel()
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		disk := rich(t, keys, true)
		want := transcript(t, testkit.Dir, disk.Clone(), keys, "other", "timed")
		report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk, Keys: keys})
		testkit.Must(t, err)
		if len(report.Lost) > 0 || len(report.Notes) > 0 || !report.Manifest || report.Values == 0 {
			t.Errorf("report of an intact database: %+v", report)
		}
		if got := transcript(t, rescued, disk, keys, "other", "timed"); got != want {
			t.Errorf("the copy differs: %s", firstDifference(got, want))
		}
	}
}

func TestSalvage_WithoutAManifestKeyspacesGetNames(t *testing.T) {
	t.Parallel()
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		disk := rich(t, keys, false)
		want := transcript(t, testkit.Dir, disk.Clone(), keys, "other", "timed")
		removeManifest(t, disk)
		report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk, Keys: keys})
		testkit.Must(t, err)
		// An obsolete commit in the log may refer to a value file that is gone: a loss, too.
		if report.Manifest || len(report.Notes) != 4 {
			t.Errorf("report without a manifest: %+v", report)
		}
		// What was deleted can come back, because obsolete files count, too.
		got := transcript(t, rescued, disk, keys, "keyspace-1", "keyspace-2")
		for _, line := range strings.Split(want, "\n") {
			if !strings.Contains(got, line) {
				t.Errorf("the copy lacks %.100s", line)
			}
		}
	}
}

// firstDifference returns the first line in which two texts differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %.100q, want %.100q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

func removeManifest(t *testing.T, disk *memfs.FS) {
	t.Helper()
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") {
			testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
		}
	}
}

func TestSalvage_ListsValuesThatAreLost(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 100, 3000, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".values") {
			path := disk.Join(testkit.Dir, name)
			content, err := testkit.ReadFile(disk, path)
			testkit.Must(t, err)
			content[len(content)/2] ^= 1
			testkit.Must(t, testkit.WriteFile(disk, path, content))
			break
		}
	}
	report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk})
	testkit.Must(t, err)
	if len(report.Lost) != 1 || report.Lost[0].Entries != 1 || report.Entries != 99 {
		t.Fatalf("one value of 100 is damaged: %+v", report)
	}
	l := report.Lost[0]
	if string(l.From.Key) != string(l.To.Key) || !strings.HasSuffix(l.File, ".values") || !errors.Is(l.Err, stoat.ErrCorrupt) {
		t.Errorf("the loss is %+v", l)
	}
}

// The database is so small that Salvage looks for the error only at its end.
func TestSalvage_ReportsNoValueAsLostThatItMayNotRead(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 10, 3000, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	fs := faultfs.New(disk)
	fs.Add(faultfs.Rule{Op: vfs.OpOpen, Path: "*.values", Err: vfs.ErrTooManyFiles})
	report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: fs})
	if !errors.Is(err, vfs.ErrTooManyFiles) || len(report.Lost) > 0 {
		t.Errorf("the value file may not be opened: %+v, %v", report, err)
	}
	_, err = disk.Stat(rescued)
	testkit.WantError(t, "the new directory", err, vfs.ErrNotExist)
}

// Zeros at the end of a segment look as if nothing had been written there. What follows in the
// next segment shows that transactions are missing.
func TestSalvage_ReportsTransactionsThatAreMissingBetweenSegmentsOfTheLog(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 3000, 400, 1) // several segments, and no flush
	killed := disk.Clone()
	testkit.Must(t, db.Close())
	names, err := killed.List(testkit.Dir)
	testkit.Must(t, err)
	var logs []string
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, killed.Join(testkit.Dir, name))
		}
	}
	if len(logs) < 3 {
		t.Fatalf("the log has only the files %q", logs)
	}
	content, err := testkit.ReadFile(killed, logs[0])
	testkit.Must(t, err)
	clear(content[len(content)/2:])
	testkit.Must(t, testkit.WriteFile(killed, logs[0], content))
	report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: killed})
	testkit.Must(t, err)
	const most, least = 2900, 2000
	if len(report.Lost) != 1 || report.Entries > most || report.Entries < least {
		t.Fatalf("a part of one segment is gone: %d losses, %d entries: %+v", len(report.Lost), report.Entries, report)
	}
	if l := report.Lost[0]; !errors.Is(l.Err, stoat.ErrCorrupt) || !strings.Contains(l.Err.Error(), "lost are transactions after version") || !strings.HasSuffix(l.File, ".log") {
		t.Errorf("the loss is %+v", l)
	}
}

func TestSalvage_RefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	disk := rich(t, testkit.Keys, true)
	run := func(from, to string, keys stoat.KeyProvider) error {
		_, err := stoat.Salvage(t.Context(), from, to, stoat.SalvageOptions{FS: disk, Keys: keys})
		return err
	}
	testkit.WantError(t, "without a key", run(testkit.Dir, rescued, nil), stoat.ErrKey)
	testkit.WantError(t, "with a wrong key", run(testkit.Dir, rescued, stoat.StaticKeys(testkit.MasterKey("two"))), stoat.ErrKey)
	testkit.WantError(t, "onto itself", run(testkit.Dir, testkit.Dir, testkit.Keys), fs.ErrExist)
	testkit.WantError(t, "of nothing", run("/nothing", rescued, nil), fs.ErrNotExist)
	db, err := stoat.Open(testkit.Dir, richOptions(disk, testkit.Keys))
	testkit.Must(t, err)
	testkit.WantError(t, "of an open database", run(testkit.Dir, rescued, testkit.Keys), stoat.ErrLocked)
	testkit.Must(t, db.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = stoat.Salvage(ctx, testkit.Dir, rescued, stoat.SalvageOptions{FS: disk, Keys: testkit.Keys})
	testkit.WantError(t, "when it is cancelled", err, context.Canceled)
	testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, "KEYS")))
	testkit.WantError(t, "without KEYS", run(testkit.Dir, rescued, testkit.Keys), stoat.ErrCorrupt)
	for _, dir := range []string{rescued, rescued + ".tmp"} {
		if _, err := disk.Stat(dir); !errors.Is(err, vfs.ErrNotExist) {
			t.Errorf("a failed run left %s: %v", dir, err)
		}
	}
}

func TestSalvage_RemovesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	disk := rich(t, nil, true)
	testkit.Must(t, disk.MkdirAll(rescued+".tmp"))
	testkit.Must(t, testkit.WriteFile(disk, rescued+".tmp/000001.table", []byte("unfinished")))
	_, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk})
	testkit.Must(t, err)
	testkit.Must(t, testkit.WriteFile(disk, rescued+".tmp", nil))
}

// The new directory has another name until it is complete. A database may have that name.
func TestSalvage_LeavesADatabaseThatHasItsTemporaryName(t *testing.T) {
	t.Parallel()
	const taken = rescued + ".tmp"
	sample := testkit.NewSampleDisk(t)
	salvage := func(disk *memfs.FS, from, to string) error {
		_, err := stoat.Salvage(t.Context(), from, to, stoat.SalvageOptions{FS: disk})
		return err
	}
	for _, c := range []struct {
		name, from string
		arrange    func(disk *memfs.FS) error
	}{
		{"the source", taken, func(disk *memfs.FS) error { return disk.Rename(testkit.Dir, taken) }},
		{"the source, without a lock file", taken, func(disk *memfs.FS) error {
			return errors.Join(salvage(disk, testkit.Dir, taken), disk.Remove(disk.Join(taken, "LOCK")))
		}},
		{"another database", "/old", func(disk *memfs.FS) error {
			return errors.Join(salvage(disk, testkit.Dir, "/old"), disk.Rename(testkit.Dir, taken))
		}},
		{"a salvaged database", testkit.Dir, func(disk *memfs.FS) error { return salvage(disk, testkit.Dir, taken) }},
	} {
		disk := sample.Clone()
		testkit.Must(t, c.arrange(disk))
		before, err := disk.List(taken)
		testkit.Must(t, err)
		err = salvage(disk, c.from, rescued)
		after, listErr := disk.List(taken)
		if err == nil || listErr != nil || !slices.Equal(before, after) {
			t.Errorf("%s: error %v; files before %q, after %q", c.name, err, before, after)
		}
	}
}

// Only the manifest has the version of ingested entries. What is older lies in tables of smaller
// numbers, or in memtables that the ingest flushes.
func TestSalvage_WithoutAManifestIngestedEntriesStay(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3000} { // in tables, and in a value file
		for _, flushed := range []bool{false, true} {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			testkit.SetKeys(t, db, 0, 5, size, 'o')
			snapshot := testkit.Begin(t, db, stoat.ReadOnly) // a compaction keeps what it sees
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(testkit.Key(3), testkit.Key(20)) }))
			if flushed {
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			}
			snapshot.Discard()
			_, err := db.Ingest(t.Context(), func(yield func(key, value []byte) bool) {
				for i := range 10 {
					if !yield(testkit.Key(i), bytes.Repeat([]byte("i"), size)) {
						return
					}
				}
			}, stoat.IngestOptions{})
			testkit.Must(t, err)
			testkit.SetKeys(t, db, 7, 8, size, 'n')
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("x"), []byte("y")) }))
			testkit.Must(t, db.Close())
			removeManifest(t, disk)
			report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk})
			testkit.Must(t, err)
			if l := report.Lost; len(l) != 1 || string(l[0].From.Key) != string(testkit.Key(0)) || string(l[0].To.Key) != string(testkit.Key(9)) ||
				!errors.Is(l[0].Err, stoat.ErrCorrupt) || !strings.HasSuffix(l[0].File, ".table") {
				t.Errorf("values of %d bytes, flushed %t: the report is %+v", size, flushed, report)
			}
			db, err = stoat.Open(rescued, &stoat.Options{FS: disk, MustExist: true})
			testkit.Must(t, err)
			for _, when := range []string{"after the salvage", "after a compaction"} {
				got := ""
				testkit.Must(t, db.View(func(tx stoat.Txn) error {
					for _, value := range tx.All() {
						got += string(value[:1])
					}
					return tx.Err()
				}))
				if got != "iiiiiiinii" {
					t.Errorf("values of %d bytes, flushed %t: %s the values begin with %s", size, flushed, when, got)
				}
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			}
			testkit.MustBeSound(t, db)
			testkit.Must(t, db.Close())
		}
	}
}

// The log keeps transactions for a while after a flush. The manifest has the version up to
// which the tables have them.
func TestSalvage_ReadsTheWholeLogIfItIgnoresTheManifest(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 100, 20, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".table") {
			testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
		}
	}
	for ignore, want := range map[bool]uint64{false: 0, true: 100} {
		report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk.Clone(), IgnoreManifest: ignore})
		testkit.Must(t, err)
		if report.Entries != want || len(report.Lost) == 0 && !ignore {
			t.Errorf("ignore the manifest: %t. %d entries are salvaged, want %d; losses %v", ignore, report.Entries, want, report.Lost)
		}
	}
}

// A flush and a compaction move values to value files. The log keeps them for a while.
func TestSalvage_ValuesThatValueFilesLostComeFromTheLog(t *testing.T) {
	t.Parallel()
	for _, versions := range []int{1, 3} {
		disk := memfs.New()
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, NumVersions: versions})
		testkit.Must(t, err)
		for v := range versions {
			testkit.SetKeys(t, db, 0, 20, 3000, byte(v))
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		want := allVersions(t, db)
		testkit.Must(t, db.Close())
		spoilValues(t, disk)
		report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk, IgnoreManifest: true})
		testkit.Must(t, err)
		if len(report.Lost) > 0 || report.Entries != uint64(20*versions) || !strings.Contains(strings.Join(report.Notes, "\n"), "came from the log") {
			t.Errorf("%d versions of a key: %d entries, losses %v, notes %q", versions, report.Entries, report.Lost, report.Notes)
		}
		db, err = stoat.Open(rescued, &stoat.Options{FS: disk, MustExist: true, NumVersions: versions})
		testkit.Must(t, err)
		if got := allVersions(t, db); !slices.Equal(got, want) {
			t.Errorf("%d versions of a key: the copy has %d items, want %d", versions, len(got), len(want))
		}
		testkit.MustBeSound(t, db)
		testkit.Must(t, db.Close())
	}
}

// The table has the value that a compaction made of all operands. The log has the operands.
func TestSalvage_AMergedValueThatIsLostIsNotOneOfItsOperands(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, richOptions(disk, nil))
	testkit.Must(t, err)
	for i := range 3 {
		operand := []byte(strings.Repeat(fmt.Sprint(i), 3000))
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("k"), operand) }))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	spoilValues(t, disk)
	report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk, IgnoreManifest: true})
	testkit.Must(t, err)
	if len(report.Lost) == 0 || report.Entries > 0 {
		t.Errorf("%d entries, losses %v", report.Entries, report.Lost)
	}
}

// allVersions returns all versions that a database has.
func allVersions(t *testing.T, db *stoat.DB) (all []model.Item) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) (err error) {
		all, err = testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true})
		return err
	}))
	return all
}

// spoilValues changes a byte in every kilobyte of all value files, except at their ends.
func spoilValues(t *testing.T, disk *memfs.FS) {
	t.Helper()
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	spoilt := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".values") {
			continue
		}
		path := disk.Join(testkit.Dir, name)
		content, err := testkit.ReadFile(disk, path)
		testkit.Must(t, err)
		for at := 1 << 10; at < len(content)-2<<10; at += 1 << 10 {
			content[at] ^= 1
			spoilt++
		}
		testkit.Must(t, testkit.WriteFile(disk, path, content))
	}
	if spoilt == 0 {
		t.Fatal("no value lies in a value file")
	}
}

func TestSalvage_RangeDeletionsStillHide(t *testing.T) {
	t.Parallel()
	for _, manifest := range []bool{true, false} {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		testkit.SetKeys(t, db, 0, 100, 100, 1)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		snapshot := testkit.Begin(t, db, stoat.ReadOnly)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(testkit.Key(10), testkit.Key(90)) }))
		testkit.SetKeys(t, db, 95, 99, 100, 2)
		snapshot.Discard()
		testkit.Must(t, db.Close())
		if !manifest {
			removeManifest(t, disk)
		}
		report, err := stoat.Salvage(t.Context(), testkit.Dir, rescued, stoat.SalvageOptions{FS: disk})
		testkit.Must(t, err)
		if report.RangeTombstones == 0 || len(report.Lost) > 0 {
			t.Errorf("report with a range deletion: %+v", report)
		}
		db, err = stoat.Open(rescued, &stoat.Options{FS: disk, MustExist: true})
		testkit.Must(t, err)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{})
			if len(items) != 20 {
				t.Errorf("%d keys are left, want 20", len(items))
			}
			return err
		}))
		testkit.Must(t, db.Close())
	}
}
