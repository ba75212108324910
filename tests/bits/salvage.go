package bits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// salvaged is the directory of the new database.
const salvaged = testkit.Dir + "-new"

// salvage salvages a damaged disk, and compares the new database with the model.
func (img *Image) salvage(disk *memfs.FS, o stoat.SalvageOptions) (stoat.SalvageReport, []model.Item, error) {
	o.FS, o.Keys = disk, img.keys
	before, err := contents(disk)
	if err != nil {
		return stoat.SalvageReport{}, nil, err
	}
	report, err := stoat.Salvage(context.Background(), testkit.Dir, salvaged, o)
	if err != nil {
		return report, nil, err
	}
	if after, err := contents(disk); err != nil || !slices.Equal(before, after) {
		return report, nil, fmt.Errorf("the damaged directory has changed, error %v", err)
	}
	opts := testkit.Merging(stoat.Options{FS: disk, Clock: testkit.NewClock(), Keys: img.keys, MustExist: true})
	if report.Manifest {
		opts.MergeFunction = "" // the stored one, if there is one
	}
	db, err := stoat.Open(salvaged, &opts)
	if err != nil {
		return report, nil, fmt.Errorf("open the new database: %w", err)
	}
	var items []model.Item
	err = db.View(func(tx stoat.Txn) (err error) {
		if items, err = testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true}); err == nil {
			err = img.judgeSalvaged(db, tx, report, items)
		}
		return err
	})
	if err == nil {
		_, err = db.Check(context.Background(), stoat.CheckOptions{})
	}
	return report, items, errors.Join(err, db.Close())
}

// contents lists the files of the damaged directory with their contents.
func contents(disk *memfs.FS) (all []string, err error) {
	names, err := disk.List(testkit.Dir)
	for _, name := range names {
		content, err := testkit.ReadFile(disk, disk.Join(testkit.Dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, name, string(content))
	}
	return all, err
}

// judgeSalvaged demands that each version was once written, and that each key outside of
// all losses has its newest version.
//
// Of an image with several keyspaces, it judges only what was salvaged without a loss.
func (img *Image) judgeSalvaged(db *stoat.DB, tx stoat.Txn, report stoat.SalvageReport, items []model.Item) error {
	if img.m == nil {
		if len(report.Lost) > 0 || !report.Manifest {
			return nil
		}
		return errors.Join(img.compare(db, tx)...)
	}
	for _, item := range items {
		v, ok := img.m.Newest(item.Key, item.Seq)
		if item.Deleted && (!ok || v.Seq < item.Seq || v.ByRange || v.Deleted) {
			continue
		}
		if v.ByRange = false; !ok || v != item.Version {
			return fmt.Errorf("version %v was never written; the model has %v", item, model.Item{Key: item.Key, Version: v})
		}
	}
	for _, key := range img.m.Keys() {
		if isLost(report, key) {
			continue
		}
		err := img.judgeKey(tx, key, img.m.Last())
		if err != nil && img.unmarked {
			err = img.judgeKey(tx, key, img.m.Last()-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judgeKey demands that a key has its version as of commit seq.
func (img *Image) judgeKey(tx stoat.Txn, key string, seq uint64) error {
	want, ok := img.m.Get(key, seq, testkit.ClockStart)
	got, err := tx.GetItem([]byte(key))
	switch {
	case errors.Is(err, stoat.ErrNotFound) && !ok:
		return nil
	case err != nil:
		return fmt.Errorf("key %q: %w, want %v", key, err, model.Item{Key: key, Version: want})
	}
	item, err := testkit.ItemOf(got)
	if err != nil || !ok || item.Version != want {
		return fmt.Errorf("key %q is %v, error %v, want %v, and is in no lost range", key, item, err, model.Item{Key: key, Version: want})
	}
	return nil
}

// isLost reports whether a loss covers a key of the default keyspace.
func isLost(report stoat.SalvageReport, key string) bool {
	return report.More > 0 || slices.ContainsFunc(report.Lost, func(l stoat.SalvageLoss) bool { return covers(l, key) })
}

func covers(l stoat.SalvageLoss, key string) bool {
	return (l.From.Key == nil || l.From.Keyspace == "" && bytes.Compare(l.From.Key, []byte(key)) <= 0) &&
		(l.To.Key == nil || l.To.Keyspace != "" || bytes.Compare([]byte(key), l.To.Key) <= 0)
}

// salvageDamages draws n damages of an image.
func (img *Image) salvageDamages(n int, seed uint64) []damage {
	var others []damage
	if img.unclosed {
		others = img.flipsAtEnd()
	} else {
		others = append(img.sectors(n/2, seed), img.lengths(n/6, seed)...)
		others = append(others, img.wholeFiles()...)
	}
	rng := rand.New(rand.NewPCG(seed, 0x5a1))
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return append(img.flips(n/2, seed), others[:min(len(others), n-n/2)]...)
}

// SalvageSome tries n damages of each image.
func SalvageSome(t *testing.T, images []*Image, seed uint64, n int) error {
	var tally outcomes
	for _, img := range images {
		a := img.dissect(t)
		for _, d := range img.salvageDamages(n, seed) {
			if err := img.trySalvage(&d, a, &tally); err != nil {
				return fmt.Errorf("image %q, %s: %w", img.name, d.name, err)
			}
		}
	}
	return nil
}

// trySalvage does one damage and salvages.
func (img *Image) trySalvage(d *damage, a *anatomy, tally *outcomes) error {
	disk := img.disk.Clone()
	if err := d.do(disk); err != nil {
		return fmt.Errorf("the damage itself: %w", err)
	}
	report, items, err := img.salvage(disk, stoat.SalvageOptions{})
	refused := errors.Is(err, stoat.ErrCorrupt) || errors.Is(err, stoat.ErrKey) || err != nil && strings.Contains(err.Error(), "unknown format version")
	if refused && strings.Contains(d.name, "KEYS") && !strings.Contains(d.name, "flipped") { // no key, no data
		tally.refused.Add(1)
		return nil
	}
	if err == nil && a != nil && img.m != nil && !d.rollback { // with merges, a version depends on others
		err = a.missing(d, items)
	}
	if err != nil && !d.rollback {
		return fmt.Errorf("%w; %+v", err, report)
	}
	if len(report.Lost) == 0 {
		tally.harmless.Add(1)
	} else {
		tally.refused.Add(1)
	}
	return nil
}

// salvageImages are the images to salvage: all, and an encrypted one whose entries are
// judged one by one.
func salvageImages(t *testing.T) []*Image {
	t.Helper()
	return append(Images(t), newImage(t, "encrypted, one keyspace", func(r *modeltest.Run) {
		r.Opts.MemtableSize, r.Opts.Keys = testkit.SmallMemtable, testkit.Keys
		testkit.Must(t, r.DB.Close())
		r.FS = memfs.New()
		r.Opts.FS = r.FS
		_, err := r.Open(0, 0)
		testkit.Must(t, err)
		modeltest.CommitSome(t, r, 60, 6<<10)
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 10, 6<<10)
		testkit.Must(t, r.DB.Compact(t.Context(), stoat.CompactOptions{}))
		modeltest.CommitSome(t, r, 3, 60)
	}))
}
