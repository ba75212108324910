package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RunSorted ingests random files of sorted entries beside live data. Then it damages one of
// the files n times. Each time Verify must refuse it, and an ingest must change nothing.
func RunSorted(seed uint64, n int) (err error) {
	l, err := newLife(seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.db.Close()) }()
	ctx := context.Background()
	for range 20 {
		if err := l.act(ctx); err != nil {
			return err
		}
	}
	files := l.sortedFiles()
	disk := memfs.New()
	var names []string
	for i, b := range files {
		names = append(names, fmt.Sprint("/", i))
		if err := testkit.WriteFile(disk, names[i], b); err != nil {
			return err
		}
	}
	if _, err := sorted.Ingest(ctx, l.db, disk, names, stoat.IngestOptions{}); err != nil {
		return err
	}
	before, err := snapshotOf(l.db, l.clock.Ms.Load())
	if err != nil {
		return err
	}
	for i := range n {
		at := l.rng.IntN(len(files))
		bad, what := damage(l.rng, files[at], files[l.rng.IntN(len(files))])
		if _, err := sorted.Verify(ctx, bytes.NewReader(bad)); !refused(err) {
			return fmt.Errorf("file %d, %s: verify says %v", at, what, err)
		}
		if i%16 != 0 {
			continue
		}
		err := testkit.WriteFile(disk, names[at], bad)
		if err == nil {
			_, err = sorted.Ingest(ctx, l.db, disk, names, stoat.IngestOptions{})
		}
		if !refused(err) {
			return fmt.Errorf("file %d, %s: ingest says %v", at, what, err)
		}
		after, err := snapshotOf(l.db, l.clock.Ms.Load())
		if err == nil {
			err = after.diff(before)
		}
		if err == nil {
			err = testkit.WriteFile(disk, names[at], files[at])
		}
		if err != nil {
			return fmt.Errorf("file %d, %s: %w", at, what, err)
		}
	}
	return nil
}

// sortedFiles returns three files of random entries. Some values follow in parts.
func (l *life) sortedFiles() (files [][]byte) {
	for i := range 3 {
		var writes []model.Write
		for k := range 30 + l.rng.IntN(300) {
			v := model.Version{Value: testkit.RandomValue(l.rng, l.rng.IntN(900)), User: byte(l.rng.IntN(3))}
			if l.rng.IntN(200) == 0 {
				v.Value = testkit.RandomValue(l.rng, 600<<10)
			}
			writes = append(writes, model.Write{Key: fmt.Sprintf("key%d-%04d", i, k*3+l.rng.IntN(5)), Version: v})
		}
		files = append(files, testkit.SortedFile(testkit.Ingestible(writes), testkit.Compressions[l.rng.IntN(3)]))
	}
	return files
}
