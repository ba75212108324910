package mixture

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// recover opens a database again after trouble, half of the times after a power cut. It finds
// out which of the calls in doubt had an effect.
func (r *run) recover(t *trouble) error {
	r.release()
	if err := r.closeAfter(t); err != nil {
		return fmt.Errorf("close after failures: %w", err)
	}
	r.trouble = nil
	if r.rng.IntN(2) == 0 {
		r.note("  power cut")
		r.fs = testkit.RandomCut(r.rng)(r.fs)
	}
	r.drawOptions()
	if err := r.open(); err != nil {
		return err
	}
	version, err := testkit.VersionOf(r.db)
	if err != nil {
		return err
	}
	if t.doubt != nil && version == r.last+1 {
		if err := t.doubt(); err != nil {
			return err
		}
	}
	if err := r.resolveDrop(t.dropping, version); err != nil {
		return err
	}
	if err := r.resolveDefinition(t.defined); err != nil {
		return err
	}
	if err := r.resolveRaise(t.raised); err != nil {
		return err
	}
	return r.settle(r.durable)
}

// closeAfter closes the database. A failed database says so.
func (r *run) closeAfter(t *trouble) error {
	err := r.db.Close()
	switch {
	case errors.Is(err, stoat.ErrFailed):
		return nil
	case t.lasting():
		return r.excuse(err, nil)
	}
	return err
}

// dropperWait is how long the dropper may take to forget what was dropped.
const dropperWait = time.Minute

// resolveDrop finds out whether a drop had an effect. If the name is gone, the dropper has
// committed the deletion before the Open, or commits it now. Without a key it commits nothing,
// and forgets the keyspace.
func (r *run) resolveDrop(s *space, version uint64) error {
	if s == nil || s.dropped > 0 {
		return nil
	}
	if _, err := r.idOf(s.name); err == nil {
		return nil
	}
	if version < r.last {
		return fmt.Errorf("the drop of %v is there at %d, before %d", s, version, r.last)
	}
	for end := time.Now().Add(dropperWait); ; time.Sleep(time.Millisecond) {
		dropping := r.dropping() // before the version, which moves first
		if r.db.Stats().Version > r.last {
			return r.dropped(s)
		}
		if !dropping {
			s.dropped = r.last
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %v the dropper has neither committed nor forgotten %v", dropperWait, s)
		}
	}
}

// resolveDefinition finds out whether a failed call of DB.Keyspace had an effect.
func (r *run) resolveDefinition(d *definition) error {
	if d == nil {
		return nil
	}
	infos, err := r.db.Keyspaces()
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.Name != d.space.name || settingsOf(info) != d.after {
			continue
		}
		if !d.created {
			r.change(d.space, d.after)
			return nil
		}
		d.space.id = info.ID
		r.add(d.space, d.after)
		d.space.ks, err = r.db.Keyspace(info.Name, nil)
		return err
	}
	return nil
}

// resolveRaise finds out whether a failed call of DiscardBelow had an effect.
func (r *run) resolveRaise(d *raise) error {
	if d == nil || d.space.dropped > 0 {
		return nil
	}
	ks, err := r.db.Keyspace(d.space.name, nil)
	if err == nil && ks.DiscardedBelow() == d.to {
		d.space.discard = d.to
	}
	return err
}
