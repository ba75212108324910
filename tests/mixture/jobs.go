package mixture

import (
	"bytes"
	"context"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// compact compacts the database, a keyspace or a range of one.
func (r *run) compact() error {
	var o stoat.CompactOptions
	if r.rng.IntN(2) == 0 {
		all := r.current()
		o.Keyspace = all[r.rng.IntN(len(all))].ks
		if r.rng.IntN(2) == 0 {
			o.Lower, o.Upper = []byte(r.key()), []byte(r.key())
			if bytes.Compare(o.Lower, o.Upper) >= 0 {
				o.Upper = nil
			}
		}
	}
	r.note("  %+v", o)
	return r.excuse(r.db.Compact(context.Background(), o), nil)
}

// collect collects garbage in value files.
func (r *run) collect() error {
	return r.excuse(r.db.Collect(context.Background()), nil)
}

// flush waits for the flushes under way.
func (r *run) flush() error { return testkit.WaitForFlushes(r.db) }

// tick lets up to three seconds pass.
func (r *run) tick() error {
	r.clock.Ms.Add(int64(r.rng.IntN(3000)))
	r.note("  %d", r.clock.Ms.Load())
	return nil
}

// check checks the files of the database.
func (r *run) check() error { return checkSound(r.db) }

// checkSound demands that Check finds no problem in a database.
func checkSound(db *stoat.DB) error {
	_, err := db.Check(context.Background(), stoat.CheckOptions{})
	return err
}
