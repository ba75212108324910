//go:build linux

package diskfull

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestRoom_DeletingOnARealFullDiskMakesRoomByItself fills a small tmpfs until writers
// are refused, deletes most, and demands the space back without a further call.
func TestRoom_DeletingOnARealFullDiskMakesRoomByItself(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	for _, value := range []int{1 << 10, 16 << 10}[:testkit.Raced(2, 1)] {
		t.Run(fmt.Sprint(value), func(t *testing.T) {
			t.Parallel()
			disk := newSmallDisk(t, size, 0)
			happened := make(chan struct{}, 1)
			db, err := stoat.Open(filepath.Join(disk.dir, "db"), &stoat.Options{MemtableSize: 1 << 20, Events: func(stoat.Event) {
				select {
				case happened <- struct{}{}:
				default:
				}
			}})
			testkit.Must(t, err)
			defer func() { testkit.Must(t, db.Close()) }()
			c := &crowded{t: t, db: db, value: value, rng: rand.New(rand.NewPCG(9, uint64(value)))}
			for err = nil; err == nil; err = c.set(c.keys, c.batch()) {
				if c.keys += c.batch(); c.keys*value > 2*size {
					t.Fatal("the disk never becomes full")
				}
			}
			if !errors.Is(err, stoat.ErrNoSpace) {
				t.Fatal(err)
			}
			c.remove(0.7)
			deadline := time.After(goOnWithin)
			for s := db.Stats(); s.DiskLow || s.DiskFree < size/3; s = db.Stats() {
				select {
				case <-happened:
				case <-time.After(10 * time.Millisecond): // not every change has an event
				case <-deadline:
					t.Fatalf("%v after deleting there is no space: %+v", goOnWithin, s)
				}
			}
			testkit.Must(t, c.set(c.keys, c.batch()))
			testkit.MustBeSound(t, db)
		})
	}
}
