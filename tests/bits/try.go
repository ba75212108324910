package bits

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// outcomes counts the damages by what came of them.
type outcomes struct{ refused, harmless atomic.Int64 }

// A damage is one change of a disk.
type damage struct {
	name string
	do   func(disk *memfs.FS) error
	// parts are those that the change may touch, if it is known. sector says that they
	// are sectors. Otherwise they are bytes with one wrong bit, or whole files.
	parts  []part
	sector bool
	// rollback says that the manifest was put back as a whole to what it was
	// at an earlier time. Nothing outside it can tell; if the database opens,
	// it must be exactly at a commit. A log put back is missed by the
	// manifest.
	rollback bool
}

// A part is a range of bytes of a file.
type part struct {
	file     string
	from, to int64
}

func (p part) meets(o part) bool { return p.file == o.file && p.from < o.to && o.from < p.to }

// try does one damage and judges what comes of it.
func (img *Image) try(d damage, tally *outcomes) error {
	disk := img.disk.Clone()
	if err := d.do(disk); err != nil {
		return fmt.Errorf("the damage itself: %w", err)
	}
	errs := img.show(disk, d.rollback)
	for _, err := range errs {
		if !refused(err) {
			return err
		}
	}
	if len(errs) > 0 {
		tally.refused.Add(1)
	} else {
		tally.harmless.Add(1)
	}
	return nil
}

// show opens a database. It returns how each part of what it shows differs from what was
// written. If rollback is set, it may be at any commit.
func (img *Image) show(disk *memfs.FS, rollback bool) (errs []error) {
	opts := testkit.Merging(stoat.Options{FS: disk, Clock: testkit.NewClock(), Keys: img.keys})
	opts.MergeFunction = "" // the database has one, or none
	db, err := stoat.Open(testkit.Dir, &opts)
	if err != nil {
		return []error{err}
	}
	err = db.View(func(tx stoat.Txn) error {
		least := img.last
		if img.unmarked {
			least--
		}
		if v := tx.ReadVersion(); v > img.last || v < least && !rollback {
			return fmt.Errorf("opened at commit %d, want %d", v, img.last)
		}
		errs = img.compare(db, tx)
		return nil
	})
	errs = slices.DeleteFunc(append(errs, err), func(err error) bool { return err == nil })
	if err := db.Close(); err != nil {
		if len(errs) == 0 {
			return []error{fmt.Errorf("close after all was read: %v", err)} // no refusal, whatever it is
		}
		errs[0] = errors.Join(errs[0], err)
	}
	return errs
}

// refused reports whether err says that data is not what was written.
func refused(err error) bool {
	return errors.Is(err, stoat.ErrCorrupt) || errors.Is(err, vfs.ErrNotExist) ||
		strings.Contains(err.Error(), "unknown format version")
}

// DamageSome tries n random flips of each image, and other damages of the images
// that were closed.
func DamageSome(images []*Image, seed uint64, n int) error {
	var tally outcomes
	for _, img := range images {
		damages := img.flips(n, seed)
		if img.unclosed {
			damages = append(damages, img.flipsAtEnd()...)
		} else {
			damages = append(damages, img.sectors(n, seed)...)
			damages = append(damages, img.wholeFiles()...)
		}
		for _, d := range damages {
			if err := img.try(d, &tally); err != nil {
				return fmt.Errorf("image %q, %s: %w", img.name, d.name, err)
			}
		}
	}
	return nil
}
