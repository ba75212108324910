package commit

import (
	"context"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/settings"
)

// checks is what a request needs before it joins the queue.
type checks struct {
	admit     int64 // bytes of the disk, if it adds anything
	adds      bool
	yields    bool // it only deletes: background jobs may go first
	validates bool // what it read must not have been written since
	apart     bool // it has values for value files
}

// checksOf decides what a request needs.
func checksOf(r *Request, apartMin int64) checks {
	w := r.writes
	if w == nil {
		return checks{}
	}
	n := checks{adds: w.Adds, yields: !w.Adds, validates: !w.Reads.Empty()}
	if n.adds {
		n.admit = r.takes(apartMin)
	}
	n.apart = len(w.Streams) > 0 || w.Large >= apartMin
	return n
}

// weighLarge counts the large values of a transaction without those that it has overwritten or
// deleted itself.
func (c *Committer) weighLarge(w *WriteSet) {
	if w == nil || w.Large == 0 || w.Pending.LiveLen() == w.Pending.Len() {
		return
	}
	rules := settings.Walk{Of: c.o.Settings}
	w.Large = 0
	for e := range w.Pending.Entries {
		if isLarge(&rules, &e) {
			w.Large += int64(len(e.Value))
		}
	}
}

// isLarge reports whether the value of an entry may go to a value file before the commit.
func isLarge(rules *settings.Walk, e *base.Entry) bool {
	return e.Meta.Kind == base.KindSet && int64(len(e.Value)) >= rules.At(e.Key).LargeValueThreshold
}

// errUnprepared is the error of prepare until it returns. It never leaves prepare.
var errUnprepared = errors.New("the commit is not prepared")

// prepare makes sure that there is room on the disk, and looks for conflicts. No other
// commit waits for that. The leader then checks only the commits since. prepare also
// writes the values that go to value files. Neither these nor the room are held after an error,
// or after a panic of a file system of the caller. A file begun before a panic stays until the
// next Open.
func (c *Committer) prepare(ctx context.Context, r *Request) (err error) {
	err = errUnprepared
	if err := c.Failed(); err != nil {
		return err
	}
	least := ApartMin(c.o.MemtableSize)
	c.weighLarge(r.writes)
	n := checksOf(r, least)
	if n.adds {
		if err := c.o.Space.Admit(ctx, n.admit); err != nil {
			return err
		}
		r.promised = n.admit
		defer func() {
			if err != nil {
				c.settle(r)
			}
		}()
	}
	if n.yields {
		if err := c.o.Space.Yield(ctx); err != nil {
			return err
		}
	}
	// The wait for room may have been long. A conflict with a commit of that time is
	// found here, before values are written to value files.
	upTo := c.store.Visible()
	if r.retried {
		upTo = c.store.Applied()
	}
	if n.validates && upTo > r.since {
		if err := c.validate(r); err != nil {
			return err
		}
		r.since = upTo
	}
	if !n.apart {
		return nil
	}
	err = c.placeApart(ctx, r, r.writes.Large >= least)
	c.o.Space.WriteFailed(err)
	return err
}
