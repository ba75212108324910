package behaviour

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestCheck_FindsNothingInASoundDatabase(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	// Merges in the background may have dropped all pointers of the sample.
	testkit.SetKeys(t, db, 1500, 1510, 3000, 5)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	var last stoat.CheckProgress
	report, err := db.Check(t.Context(), stoat.CheckOptions{Progress: func(p stoat.CheckProgress) {
		if p.Done < last.Done || p.Done > p.Total {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}})
	testkit.Must(t, err)
	s := db.Stats()
	if report.Tables != s.Tables || report.Values != s.Values || report.Bytes != s.TableBytes+s.ValueBytes ||
		report.Entries == 0 || report.Pointers == 0 || last.Done != report.Bytes || last.Done != last.Total {
		t.Errorf("report %+v, progress %+v, stats %+v", report, last, s)
	}
	testkit.Must(t, db.Close())
}

func TestCheck_FindsEveryFlippedByteOfTablesAndValues(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	files := 0
	for _, name := range names {
		_, isTable := base.ParseTableName(name)
		_, isValues := base.ParseValueName(name)
		if !isTable && !isValues {
			continue
		}
		files++
		path := disk.Join(testkit.Dir, name)
		info, err := disk.Stat(path)
		testkit.Must(t, err)
		flips := int64(testkit.Raced(12, 3))
		for i := range flips {
			at := (info.Size - 1) * i / (flips - 1)
			damaged := disk.Clone()
			flipByte(t, damaged, path, at)
			wantDamage(t, damaged, name, at)
		}
	}
	if files < 3 {
		t.Errorf("there are only %d files", files)
	}
}

func flipByte(t *testing.T, disk *memfs.FS, path string, at int64) {
	t.Helper()
	f, err := disk.OpenReadWrite(path, vfs.CatTable)
	testkit.Must(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	testkit.Must(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], at)
	testkit.Must(t, errors.Join(err, f.Close()))
}

// wantDamage demands that Check of the disk names a file, and nothing else.
func wantDamage(t *testing.T, disk *memfs.FS, name string, at int64) {
	t.Helper()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	defer func() { testkit.Must(t, db.Close()) }()
	report, err := db.Check(t.Context(), stoat.CheckOptions{})
	if !errors.Is(err, stoat.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Fatalf("byte %d of %s was changed: %v", at, name, err)
	}
	for _, problem := range report.Problems {
		if !errors.Is(problem, stoat.ErrCorrupt) || !strings.Contains(problem.Error(), name) {
			t.Errorf("byte %d of %s was changed: %v", at, name, problem)
		}
	}
}

func TestCheck_ReportsAllMissingFilesAndGoesOn(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	var gone []string
	for _, name := range names {
		if _, isTable := base.ParseTableName(name); isTable {
			testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
			gone = append(gone, name)
		}
	}
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	report, err := db.Check(t.Context(), stoat.CheckOptions{})
	testkit.WantError(t, "check", err, stoat.ErrCorrupt)
	if len(gone) < 2 || len(report.Problems) != len(gone) {
		t.Errorf("%d of %d problems: %v", len(report.Problems), len(gone), err)
	}
	for i, name := range gone {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("file %d, %s, is not in %v", i, name, err)
		}
	}
	testkit.Must(t, db.Close())
}

func TestCheck_ReadOnlyReadsTheLogAndListsOrphans(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	f, err := disk.Create(disk.Join(testkit.Dir, base.TableName(999999)), vfs.CatTable)
	testkit.Must(t, err)
	testkit.Must(t, f.Close())
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	report := testkit.MustBeSound(t, db)
	if report.LogRecords == 0 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "999999.table") {
		t.Errorf("%d records in the log, warnings %q", report.LogRecords, report.Warnings)
	}
	testkit.Must(t, db.Close())
}

// What an opening begins with is read once, when the database is opened. Damage to it
// must not wait for the next opening, which fails.
func TestCheck_BesideWritersFindsFlippedBytesOfManifestAndLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, flipBytesOfManifestAndLog) // no second passes, after which an idle database flushes
}

func flipBytesOfManifestAndLog(t *testing.T) {
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 600, 300, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.SetKeys(t, db, 0, 300, 300, 2)
	testkit.Must(t, commitValue(db, "the last value"))
	if report := testkit.MustBeSound(t, db); report.LogRecords == 0 {
		t.Error("the log was not read")
	}
	const framesFrom = 8192
	end := map[string]int64{}
	path, last := placeInLog(t, disk, "the last value")
	end[path] = last
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") {
			path := disk.Join(testkit.Dir, name)
			content, err := testkit.ReadFile(disk, path)
			testkit.Must(t, err)
			end[path] = int64(len(bytes.TrimRight(content, "\x00"))) - 40 // which the mark does not take
		}
	}
	if len(end) != 2 {
		t.Fatalf("the manifest and the log are %v", end)
	}
	for path, end := range end {
		for i := range int64(12) {
			at := framesFrom + (end-framesFrom)*i/11
			flipByte(t, disk, path, at)
			report, err := db.Check(t.Context(), stoat.CheckOptions{})
			var bad *base.CorruptionError
			if !errors.As(err, &bad) || !strings.HasSuffix(path, bad.File) || bad.Offset < 0 || bad.Offset > at || len(report.Problems) != 1 {
				t.Errorf("byte %d of %s was changed: %v", at, path, err)
			}
			flipByte(t, disk, path, at)
		}
		for _, copies := range [][]int64{{0}, {4096}, {0, 4096}} {
			for _, at := range copies {
				flipByte(t, disk, path, at)
			}
			if _, err := db.Check(t.Context(), stoat.CheckOptions{}); errors.Is(err, stoat.ErrCorrupt) != (len(copies) == 2) {
				t.Errorf("the header copies at %v of %s were changed: %v", copies, path, err)
			}
			for _, at := range copies {
				flipByte(t, disk, path, at)
			}
		}
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

// Until the first commit of an opening, the log is that of earlier openings.
func TestCheck_ReadsTheLogOfEarlierOpenings(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, commitValue(db, "first value"))
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, nil)
	if report := testkit.MustBeSound(t, db); report.LogRecords != 1 {
		t.Errorf("%d records, want 1", report.LogRecords)
	}
	path, at := placeInLog(t, disk, "first value")
	for _, later := range []bool{false, true} {
		flipByte(t, disk, path, at)
		_, err := db.Check(t.Context(), stoat.CheckOptions{})
		testkit.WantError(t, "check", err, stoat.ErrCorrupt)
		flipByte(t, disk, path, at)
		if !later {
			testkit.Must(t, commitValue(db, "second value"))
		}
	}
	if report := testkit.MustBeSound(t, db); report.LogRecords != 2 {
		t.Errorf("%d records, want 2", report.LogRecords)
	}
	testkit.Must(t, db.Close())
}

func TestCheck_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, testkit.NewSampleDisk(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := db.Check(ctx, stoat.CheckOptions{Progress: func(stoat.CheckProgress) { cancel() }})
	testkit.WantError(t, "check", err, context.Canceled)
	testkit.Must(t, db.Close())
	_, err = db.Check(t.Context(), stoat.CheckOptions{})
	testkit.WantError(t, "check after Close", err, stoat.ErrClosed)
}

// readLog opens NewSampleDisk to be read, for checks that come to the log.
func readLog(t *testing.T) (*stoat.DB, *faultfs.FS) {
	t.Helper()
	faults := faultfs.New(testkit.NewSampleDisk(t))
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, ReadOnly: true})
	testkit.Must(t, err)
	return db, faults
}

func TestCheck_OfTheLogEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db, faults := readLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	faults.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatLog {
			cancel()
		}
	})
	_, err := db.Check(ctx, stoat.CheckOptions{})
	testkit.WantError(t, "check", err, context.Canceled)
	testkit.Must(t, db.Close())
}

func TestCheck_UnreadableLogIsAnErrorAndNoProblem(t *testing.T) {
	t.Parallel()
	db, faults := readLog(t)
	faults.Add(faultfs.Rule{Op: vfs.OpRead, Category: vfs.CatLog, Forever: true})
	report, err := db.Check(t.Context(), stoat.CheckOptions{})
	testkit.WantError(t, "check", err, vfs.ErrIO)
	if len(report.Problems) > 0 || errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("problems %v, error %v", report.Problems, err)
	}
	testkit.Must(t, db.Close())
}

func TestCheck_RunsBesideWritersAndCompaction(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for round := range 4 {
			testkit.SetKeys(t, db, 0, 1500, 100+300*round, byte(round))
		}
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		testkit.MustBeSound(t, db)
	}
	testkit.Must(t, db.Close())
}
