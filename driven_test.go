package stoat

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An interposer is a driver of a database that does something of its own, once,
// whenever a job has come to a point.
type interposer struct {
	point point
	do    func()
	times int
	inDo  bool
}

func (i *interposer) at(p point) {
	if p != i.point || i.do == nil || i.inDo {
		return
	}
	i.inDo = true
	i.times++
	i.do()
	i.inDo = false
}

// leaveGarbage makes a value file that is half garbage, and known to be.
func leaveGarbage(db *DB, keys string) error {
	for _, step := range []int{1, 2} {
		err := db.Update(func(tx *Txn) error {
			for n := 0; n < 40; n += step {
				value := strings.Repeat(fmt.Sprint(step), int(db.opts.ValueThreshold))
				if err := tx.Set(fmt.Appendf(nil, "%s-%02d", keys, n), []byte(value)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = db.rotate()
		}
		if err == nil {
			_, err = db.flushNext()
		}
		if err != nil {
			return err
		}
	}
	c := compaction{db: db, stop: db.stopped, upTo: base.SeqNumMax}
	return c.each(&db.compacting, c.sink)
}

// While a drop gives space back, others may overwrite faster than it can
// collect. It leaves that to the collector, or it would never end.
func TestADropCollectsOnlyWhatWasThereWhenItBegan(t *testing.T) {
	t.Parallel()
	others := &interposer{point: pointCreate}
	db, err := openDriven("/db", &Options{FS: memfs.New()}, others)
	if err != nil {
		t.Fatal(err)
	}
	if err := leaveGarbage(db, "before"); err != nil {
		t.Fatal(err)
	}
	others.do = func() {
		if others.times > 5 {
			return
		}
		if err := leaveGarbage(db, fmt.Sprintf("during-%d", others.times)); err != nil {
			t.Error(err)
		}
	}
	if err := db.collectDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if others.times != 1 || db.Stats().ValueGarbage == 0 {
		t.Errorf("%d value files were collected, %d bytes of garbage are left; want 1, and what others left meanwhile",
			others.times, db.Stats().ValueGarbage)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A commit whose transaction began before Close may come to its large values
// when Close has stopped waiting for work.
func TestNoValueFileIsBegunOnceCloseHasEndedTheWork(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	tx, err := db.Begin(ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set([]byte("large"), make([]byte, 2*db.opts.apartMin())); err != nil {
		t.Fatal(err)
	}
	db.background.end()
	if err := tx.Commit(); !errors.Is(err, ErrClosed) {
		t.Errorf("commit: %v, want %v", err, ErrClosed)
	}
	names, err := db.fs.List(db.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, ok := base.ParseValueName(name); ok {
			t.Errorf("there is %s", name)
		}
	}
}
