package bits

import (
	"errors"
	"fmt"
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
	opts := stoat.Options{FS: disk, Clock: testkit.NewClock(), Keys: img.keys}
	db, err := stoat.Open(testkit.Dir, &opts)
	if err != nil {
		return judge(err, tally)
	}
	err = db.View(func(tx stoat.Txn) error {
		least := img.m.Last()
		if img.unmarked {
			least--
		}
		if v := tx.ReadVersion(); v > img.m.Last() || v < least && !d.rollback {
			return fmt.Errorf("opened at commit %d, want %d", v, img.m.Last())
		}
		return testkit.Compare(tx, img.m, testkit.ClockStart)
	})
	if err == nil {
		tally.harmless.Add(1)
		return db.Close()
	}
	if closeErr := db.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return judge(err, tally)
}

// judge accepts errors that say that data is not what was written.
func judge(err error, tally *outcomes) error {
	if errors.Is(err, stoat.ErrCorrupt) || errors.Is(err, vfs.ErrNotExist) ||
		strings.Contains(err.Error(), "unknown format version") {
		tally.refused.Add(1)
		return nil
	}
	return err
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
