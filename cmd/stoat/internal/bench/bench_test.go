package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// smallConfig returns the configuration of a run that takes a fraction of a second.
func smallConfig(t *testing.T) Config {
	return Config{
		Parent: t.TempDir(),
		Keys:   2000, ValueSize: 100, Batch: 100, Writers: 3, Seed: 5,
		ReadDuration: 5 * time.Millisecond, CommitDuration: 5 * time.Millisecond,
		Out: io.Discard, Progress: io.Discard,
	}
}

func TestRun_ReportsEveryPhaseAndCleansUp(t *testing.T) {
	t.Parallel()
	cfg := smallConfig(t)
	var out bytes.Buffer
	cfg.Out = &out
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2,000 keys of 22 bytes, values of 100 B; seed 5",
		"load, 3 writers, synced batches of 100",
		"\n  close after the load ", "\n  open, clean ", "\n  close, nothing written ",
		"verify every byte of every value",
		"empty read transaction, 1 goroutine",
		"get, 63 % of the keys exist, 1 goroutine",
		"get, 63 % of the keys exist, 16 goroutines",
		"get, the key exists, 1 goroutine",
		"get, the key is absent, 1 goroutine",
		"scan all with values ",
		"scan all, keys only ",
		"scan all with values, backwards",
		"scan all, keys only, backwards",
		"seek, then read 10 with values, 16 goroutines",
		"durable commit of one key, 1 goroutine ",
		"durable commit of one key, 64 goroutines",
		"loaded by the user     244 kB",
		"on disk at the end",
		"peak memory",
		"correct answers        all: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("the report divides by zero:\n%s", out.String())
	}
	expectEmpty(t, cfg.Parent)
}

func TestRun_WithTheSmallestSizes(t *testing.T) {
	t.Parallel()
	cfg := smallConfig(t)
	cfg.Keys, cfg.ValueSize, cfg.Batch, cfg.Writers, cfg.Buffered = 1, 0, 1, 1, true
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func TestSettle_MeasuresASettledDatabase(t *testing.T) {
	t.Parallel()
	cfg := smallConfig(t)
	cfg.Settle, cfg.Keys = true, 20_000 // enough for a table
	var out bytes.Buffer
	cfg.Out = &out
	b := newBench(cfg, filepath.Join(cfg.Parent, "db"))
	for _, phase := range []phase{b.create, b.load, b.settle} {
		if err := phase(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.db.Stats(); s.FlushedBytes == 0 || s.Levels[0].Tables > 0 {
		t.Errorf("%d bytes were flushed, and %d tables are in level 0", s.FlushedBytes, s.Levels[0].Tables)
	}
	if !strings.Contains(out.String(), "\n  settle ") && !strings.HasPrefix(out.String(), "  settle ") {
		t.Errorf("the report lacks the time to settle:\n%s", out.String())
	}
	if err := b.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRun_KeepsTheDatabaseWithKeep(t *testing.T) {
	t.Parallel()
	cfg := smallConfig(t)
	cfg.Keep = true
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(cfg.Parent, "stoat-bench-*", "db"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("kept %q, %v, want one database", dirs, err)
	}
	db, err := stoat.Open(dirs[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRun_CleansUpWhenInterrupted(t *testing.T) {
	t.Parallel()
	cfg := smallConfig(t)
	ctx, cancel := context.WithCancel(t.Context())
	// The first row of the report is that of the load, so the run is interrupted in
	// the middle.
	cfg.Out = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("load, ")) {
			cancel()
		}
		return len(p), nil
	})
	if err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	expectEmpty(t, cfg.Parent)
}

func TestRun_RefusesValuesOutOfRange(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Config){
		"keys":            func(c *Config) { c.Keys = 0 },
		"value-size":      func(c *Config) { c.ValueSize = -1 },
		"batch":           func(c *Config) { c.Batch = 0 },
		"writers":         func(c *Config) { c.Writers = 0 },
		"read-duration":   func(c *Config) { c.ReadDuration = 0 },
		"commit-duration": func(c *Config) { c.CommitDuration = -1 },
	} {
		cfg := smallConfig(t)
		spoil(&cfg)
		if err := Run(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), name+" is ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// This test changes a loaded database without the oracle, in several ways. The
// phases that can detect the change must do so.
func TestWrongAnswers_OfScansAreFound(t *testing.T) {
	t.Parallel()
	spoils := map[string]func(b *Bench, tx stoat.Txn, key []byte) error{
		"a lost key":      func(_ *Bench, tx stoat.Txn, key []byte) error { return tx.Delete(key) },
		"a spoiled value": func(_ *Bench, tx stoat.Txn, key []byte) error { return tx.Set(key, bytes.Repeat([]byte{7}, 100)) },
		"a cut value":     func(_ *Bench, tx stoat.Txn, key []byte) error { return tx.Set(key, nil) },
		"an old version": func(b *Bench, tx stoat.Txn, key []byte) error {
			n, err := b.work.number(key)
			if err != nil {
				return err
			}
			b.oracle.versions[n]++ // a write that the database did not get
			return nil
		},
		"a foreign key": func(_ *Bench, tx stoat.Txn, key []byte) error { return tx.Set(append(key, 'x'), nil) },
		"a key that was never loaded": func(b *Bench, tx stoat.Txn, _ []byte) error {
			number := uint64(0)
			for b.oracle.versions[number] != 0 {
				number++
			}
			key := b.work.newKey()
			b.work.putKey(key, number)
			return tx.Set(key, b.work.value(nil, number, 1))
		},
	}
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := loaded(t)
			err := b.db.Update(func(tx stoat.Txn) error {
				key := b.work.newKey()
				b.work.putKey(key, b.work.permute(17))
				return spoil(b, tx, key)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.verify(t.Context()); !errors.Is(err, ErrWrong) {
				t.Errorf("verify: error %v, want ErrWrong", err)
			}
			if err := b.scans(t.Context()); !errors.Is(err, ErrWrong) {
				t.Errorf("scans: error %v, want ErrWrong", err)
			}
		})
	}
}

// This test changes every key, so that every read is wrong.
func TestWrongAnswers_OfReadsAreFound(t *testing.T) {
	t.Parallel()
	b := loaded(t)
	for n := range b.oracle.versions {
		b.oracle.versions[n] = b.oracle.next(uint64(n))
	}
	if err := b.gets(t.Context()); !errors.Is(err, ErrWrong) {
		t.Errorf("gets: error %v, want ErrWrong", err)
	}
	if err := b.seeks(t.Context()); !errors.Is(err, ErrWrong) {
		t.Errorf("seeks: error %v, want ErrWrong", err)
	}
	clear(b.oracle.versions)
	b.oracle.versions[b.work.space/2] = 1
	if err := b.seeks(t.Context()); !errors.Is(err, ErrWrong) {
		t.Errorf("seeks among keys that should be absent: error %v, want ErrWrong", err)
	}
	if err := b.gets(t.Context()); !errors.Is(err, ErrWrong) {
		t.Errorf("gets of keys that should be absent: error %v, want ErrWrong", err)
	}
}

func TestCheckGap_FindsMissingKeys(t *testing.T) {
	t.Parallel()
	b := newBench(smallConfig(t), "")
	b.oracle.versions[20] = 1
	for _, c := range []struct {
		from, to uint64
		wrong    bool
	}{{5, 5, false}, {5, 20, false}, {20, 20, false}, {21, b.work.space, false}, {5, 21, true}, {20, 21, true}, {6, 5, true}} {
		if err := b.checkGap(c.from, c.to); errors.Is(err, ErrWrong) != c.wrong {
			t.Errorf("checkGap(%d, %d): %v", c.from, c.to, err)
		}
	}
}

// loaded returns a bench with a loaded database that passes all checks.
func loaded(t *testing.T) *Bench {
	t.Helper()
	cfg := smallConfig(t)
	b := newBench(cfg, filepath.Join(cfg.Parent, "db"))
	for _, phase := range []func(context.Context) error{b.create, b.load, b.verify, b.gets, b.scans, b.seeks} {
		if err := phase(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := b.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// expectEmpty fails the test if dir is not empty.
func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A writerFunc is an io.Writer made of a function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
