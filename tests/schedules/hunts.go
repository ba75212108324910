package schedules

import (
	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// RunSchedule plays one random schedule, for tests outside of the package.
func RunSchedule(seed uint64) error {
	_, err := runSchedule(seed)
	return err
}

// ResurrectedKey plays all orders of a collection beside a merge and a deletion, until
// a deleted key can be read. A collection that writes values back through the write
// path brings that about. Schedules notice such a commit when it is made, before it
// does any harm. Here it passes.
func ResurrectedKey() error {
	s := &scenarios[0]
	begin, err := s.prepared()
	var o orders
	for first := true; err == nil && (first || o.next()); first = false {
		w := begin.copied(o.choose)
		w.writeBacks = true
		err = testkit.CatchPanic(func() error {
			if err := s.playTurns(w); err != nil {
				return err
			}
			return w.noneIsBack()
		})
		w.leave()
	}
	return err
}

// noneIsBack returns an error if a key can be read that is deleted.
func (w *scheduleWorld) noneIsBack() error {
	return w.db.View(func(tx stoat.Txn) error {
		for _, key := range w.m.Keys() {
			if _, ok := w.m.Get(key, w.m.Last(), inside.Txn(tx).NowMs()); ok {
				continue
			}
			if err := compareKey(tx, key, model.Version{}, false); err != nil {
				return err
			}
		}
		return nil
	})
}
