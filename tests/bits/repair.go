package bits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RepairImages are images with tables, and one whose tables an ingest wrote.
func RepairImages(t *testing.T, images []*Image) []*Image {
	t.Helper()
	ingested := newImage(t, "ingested", func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 10, 60)
		modeltest.IngestSome(t, r, 3, 600)
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 3, 60)
		modeltest.IngestSome(t, r, 2, 600)
	})
	kept := []*Image{ingested}
	for _, img := range images {
		if !img.unclosed && slices.ContainsFunc(img.files, isTable) {
			kept = append(kept, img)
		}
	}
	return kept
}

func isTable(path string) bool { return strings.HasSuffix(path, ".table") }

// derived returns the parts of the tables that the rest of a table determines. A sealed
// image has none.
func (img *Image) derived(t *testing.T) (parts []part) {
	t.Helper()
	for _, path := range img.files {
		if img.keys != nil || !isTable(path) {
			continue
		}
		_, f, size := img.open(t, img.disk.Base(path))
		d, err := table.OpenDamaged(f, size, path, nil)
		testkit.Must(t, err)
		for _, s := range d.Sections() {
			if s.Length > 0 && s.Name != "range tombstones" {
				parts = append(parts, part{path, s.Offset, s.Offset + s.Length})
			}
		}
		testkit.Must(t, f.Close())
	}
	return parts
}

// repairDamages draws n damages of derived parts, and as many of any part of a table.
func (img *Image) repairDamages(parts []part, n int, seed uint64) (derived, others []damage) {
	rng := rand.New(rand.NewPCG(seed, 0x4e9a))
	for range n {
		if len(parts) > 0 {
			p := parts[rng.IntN(len(parts))]
			derived = append(derived, img.flip(slices.Index(img.files, p.file), p.from+rng.Int64N(p.to-p.from), rng.IntN(8)))
		}
	}
	others = slices.Concat(img.sectors(-1, seed), img.lengths(n, seed))
	others = slices.DeleteFunc(others, func(d damage) bool { return !isTable(d.parts[0].file) })
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:min(len(others), n/2)]
	for len(others) < n {
		if file, offset := img.at(rng); isTable(img.files[file]) {
			others = append(others, img.flip(file, offset, rng.IntN(8)))
		}
	}
	return derived, others
}

// RepairSome tries n damages of derived parts of each image, and n others.
func RepairSome(t *testing.T, images []*Image, seed uint64, n int) error {
	t.Helper()
	var tally outcomes
	for _, img := range images {
		derived, others := img.repairDamages(img.derived(t), n, seed)
		for i, d := range append(derived, others...) {
			if err := img.tryRepair(&d, i < len(derived), &tally); err != nil {
				return fmt.Errorf("image %q, %s: %w", img.name, d.name, err)
			}
		}
	}
	return nil
}

// tryRepair does one damage and repairs. must says that the repair must succeed. If it
// does, the database must show exactly what was written. Otherwise it must be as it was.
func (img *Image) tryRepair(d *damage, must bool, tally *outcomes) error {
	disk := img.disk.Clone()
	if err := d.do(disk); err != nil {
		return fmt.Errorf("the damage itself: %w", err)
	}
	before, err := contents(disk)
	if err != nil {
		return err
	}
	done, err := stoat.Repair(context.Background(), testkit.Dir, &stoat.Options{FS: disk, Keys: img.keys})
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	left := 0
	for _, r := range done {
		switch {
		case r.Err == nil && r.New != "" && len(r.Parts) > 0:
			continue
		case r.Err == nil || r.New != "" || must || !errors.Is(r.Err, stoat.ErrCorrupt):
			return fmt.Errorf("the repair is %+v", r)
		}
		left++
	}
	if left == 0 {
		tally.harmless.Add(1)
		return img.judgeRepaired(disk)
	}
	tally.refused.Add(1)
	if after, err := contents(disk); err != nil || left == len(done) && !slices.Equal(before, after) {
		return fmt.Errorf("a table that was not repaired has changed, error %v", err)
	}
	for _, err := range img.show(disk, false) {
		if !refused(err) {
			return err
		}
	}
	return nil
}

// judgeRepaired demands that a database shows what was written, and that nothing is left to
// repair.
func (img *Image) judgeRepaired(disk *memfs.FS) error {
	o := &stoat.Options{FS: disk, Keys: img.keys}
	if again, err := stoat.Repair(context.Background(), testkit.Dir, o); err != nil || len(again) > 0 {
		return fmt.Errorf("a second repair: %+v, %v", again, err)
	}
	return errors.Join(img.show(disk, false)...)
}
