package workload

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// ingestFileBytes is the size in bytes of the entries in one file of sorted entries.
const ingestFileBytes = 32 << 20

// runIngest loads, and then replaces all values by sorted input: directly, and
// through files of sorted entries. A store with both ways goes both.
func runIngest(r *Run) error {
	s, err := r.open(r.config(false, loadWriters))
	if err != nil {
		return err
	}
	if err := r.loadForIngest(s); err != nil {
		return errors.Join(err, s.Close())
	}
	// Badger's StreamWriter wants empty memtables. A close flushes them.
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = r.open(r.config(false, loadWriters)); err != nil {
		return err
	}
	if err := r.ingestBothWays(s); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

// loadForIngest writes what the ingest replaces.
func (r *Run) loadForIngest(s stores.Store) error {
	_, direct := s.(stores.Ingester)
	_, files := s.(stores.FileIngester)
	if !direct && !files {
		return lacking("an ingest of sorted entries")
	}
	l, err := r.drawLoad(s, loadWriters)
	if err != nil {
		return err
	}
	if _, err := l.run(); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	r.settle("load_settle")
	return nil
}

// ingestBothWays writes version 1 of all keys directly, and version 2 through files,
// as far as the store has these ways.
func (r *Run) ingestBothWays(s stores.Store) error {
	direct, hasDirect := s.(stores.Ingester)
	if hasDirect {
		cost, err := r.startCost()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := direct.Ingest(r.ascending(0, r.population.Count, 1)); err != nil {
			return fmt.Errorf("ingest: %w", err)
		}
		if err := r.noteIngest(s, "ingest_", time.Since(began), cost, 1); err != nil {
			return err
		}
	}
	files, hasFiles := s.(stores.FileIngester)
	if !hasFiles {
		return nil
	}
	cost, err := r.startCost()
	if err != nil {
		return err
	}
	var wrote, took time.Duration
	err = r.scratch(func(dir string) (err error) {
		wrote, took, err = r.ingestFiles(files, dir)
		return err
	})
	if err != nil {
		return err
	}
	r.set("files_write_s", wrote.Seconds())
	r.set("files_ingest_s", took.Seconds())
	if !hasDirect {
		r.noteRates("ingest_", wrote+took) // files are the only way
	}
	return r.noteIngest(s, "files_", wrote+took, cost, 2)
}

// ingestWriters is how many goroutines write files of sorted entries.
const ingestWriters = 2

// ingestFiles writes files of version 2 of all keys, and ingests them.
func (r *Run) ingestFiles(s stores.FileIngester, dir string) (wrote, took time.Duration, err error) {
	p := &r.population
	// Small runs have smaller files, so that both goroutines write some.
	each := max(uint64(min(r.job.Scale, 1)*ingestFileBytes)/uint64(KeySize+p.Values.Size), 1)
	paths := make([]string, (p.Count+each-1)/each)
	errs := make([]error, ingestWriters)
	var writers sync.WaitGroup
	began := time.Now()
	for w := range ingestWriters {
		writers.Go(func() {
			for i := w; i < len(paths) && errs[w] == nil; i += ingestWriters {
				paths[i] = filepath.Join(dir, fmt.Sprintf("%06d.sst", i))
				from := uint64(i) * each
				errs[w] = s.WriteSorted(paths[i], r.ascending(from, min(from+each, p.Count), 2))
			}
		})
	}
	writers.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, fmt.Errorf("write sorted entries: %w", err)
	}
	wrote = time.Since(began)
	began = time.Now()
	if err := s.IngestFiles(paths); err != nil {
		return 0, 0, fmt.Errorf("ingest files: %w", err)
	}
	return wrote, time.Since(began), nil
}

// ascending yields the keys from one number to another, exclusive, with a version of
// their values.
func (r *Run) ascending(from, to, version uint64) stores.Entries {
	return func(yield func(key, value []byte) bool) {
		var text Key
		value := make([]byte, r.population.Values.Size)
		for number := from; number < to; number++ {
			r.population.Keys.Put(&text, number)
			r.population.Values.Fill(value, number, version)
			if !yield(text[:], value) {
				return
			}
		}
	}
}

func (r *Run) noteRates(prefix string, took time.Duration) {
	count := r.population.Count
	r.set(prefix+"keys_per_s", float64(count)/took.Seconds())
	r.set(prefix+"mb_per_s", r.population.UserBytes(count)/took.Seconds()/megabyte)
}

// noteIngest records what an ingest cost, and checks that all keys have its version.
func (r *Run) noteIngest(s stores.Store, prefix string, took time.Duration, before cost, version uint32) error {
	count := r.population.Count
	r.noteRates(prefix, took)
	if err := before.note(prefix, r.population.UserBytes(count)); err != nil {
		return err
	}
	versions := make([]uint32, count)
	for i := range versions {
		versions[i] = version
	}
	if err := r.verifyWhole(s, Full(count), versions); err != nil {
		return fmt.Errorf("after the ingest of version %d: %w", version, err)
	}
	r.settle(prefix + "settle")
	return nil
}
