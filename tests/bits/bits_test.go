package bits

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestBits damages cleanly closed databases: bits, sectors, lengths, whole
// files. Opening and reading must give an error or exactly what was written;
// never less, never more, never anything else.
func TestBits(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	flips := dose.Size(t, dose.Flips, testkit.Raced(40, 6), testkit.Raced(900, 40))
	dose.Reproduce(t, "bits")
	var tally outcomes
	for _, img := range Images(t) {
		t.Run(img.name, func(t *testing.T) { img.damage(t, flips, seed, &tally) })
	}
	t.Logf("%d damages: %d refused, %d harmless", tally.refused.Load()+tally.harmless.Load(), tally.refused.Load(), tally.harmless.Load())
	if tally.refused.Load() == 0 || tally.harmless.Load() == 0 {
		t.Error("all damages had the same outcome: the test does not damage what it means to")
	}
}

// some returns all damages, or every tenth under the race detector.
func some(all []damage) (kept []damage) {
	for i := 0; i < len(all); i += testkit.Raced(1, 10) {
		kept = append(kept, all[i])
	}
	return kept
}

// damage does so many damages to an image, or all if flips is negative.
func (img *Image) damage(t *testing.T, flips int, seed uint64, tally *outcomes) {
	share := func(part int) int { return flips / part }
	if flips < 0 {
		share = func(int) int { return flips }
		img.tryEveryFlip(t, tally)
	}
	damages := img.flips(share(3), seed)
	if img.unclosed {
		damages = append(damages, some(img.flipsAtEnd())...)
	} else {
		if flips < 0 {
			img.tryEveryLength(t, tally)
		}
		damages = append(damages, img.sectors(share(3), seed)...)
		damages = append(damages, img.lengths(share(6), seed)...)
		damages = append(damages, some(img.wholeFiles())...)
	}
	img.tryAll(t, damages, tally)
}

// tryAll tries damages, each on a disk of its own.
func (img *Image) tryAll(t *testing.T, damages []damage, tally *outcomes) {
	t.Helper()
	img.tryEach(t, len(damages), func(n int) damage { return damages[n] }, tally)
}

// tryEveryFlip tries every bit of every sector that holds something, and of the
// others, which are the rooms of zeros that logs and manifests keep, a bit of every
// eighth byte.
func (img *Image) tryEveryFlip(t *testing.T, tally *outcomes) {
	t.Helper()
	for file := range img.sizes {
		used, empty := img.halves(file)
		img.tryEach(t, 8*len(used), func(n int) damage { return img.flip(file, used[n/8], n%8) }, tally)
		img.tryEach(t, len(empty)/8, func(n int) damage { return img.flip(file, empty[8*n], n%8) }, tally)
	}
}

// tryEveryLength cuts every file to every length at which it holds something, and
// behind that to every eighth.
func (img *Image) tryEveryLength(t *testing.T, tally *outcomes) {
	t.Helper()
	for file := range img.sizes {
		used, empty := img.halves(file)
		img.tryEach(t, len(used), func(n int) damage { return img.cut(file, used[n]) }, tally)
		img.tryEach(t, len(empty)/8, func(n int) damage { return img.cut(file, empty[8*n]) }, tally)
	}
}

// halves returns the offsets in a file that are in sectors that hold something, and
// all others.
func (img *Image) halves(file int) (used, empty []int64) {
	for offset := range img.sizes[file] {
		if _, ok := slices.BinarySearch(img.used[file], offset/sectorSize*sectorSize); ok {
			used = append(used, offset)
		} else {
			empty = append(empty, offset)
		}
	}
	return used, empty
}

// tryEach tries the damages that nth tells, up to count.
func (img *Image) tryEach(t *testing.T, count int, nth func(n int) damage, tally *outcomes) {
	t.Helper()
	img.each(t, count, func(n int) (string, error) {
		d := nth(n)
		return d.name, img.try(d, tally)
	})
}

// each calls try for the numbers up to count, until one fails.
func (img *Image) each(t *testing.T, count int, try func(n int) (name string, err error)) {
	t.Helper()
	err := testkit.InParallel(count, func(n int) error {
		name := ""
		if err := testkit.CatchPanic(func() (err error) {
			name, err = try(n)
			return err
		}); err != nil {
			return fmt.Errorf("image %q, %s: %w", img.name, name, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
