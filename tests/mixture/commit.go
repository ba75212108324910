package mixture

import (
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// commit applies writes to the models as the next commit.
func (r *run) commit(writes []write) error {
	r.last++
	for _, s := range r.current() {
		var mine []write
		for _, w := range writes {
			if w.space == s {
				mine = append(mine, w)
			}
		}
		if err := s.apply(mine, r.last, r.now()); err != nil {
			return err
		}
	}
	return nil
}

// committed handles the result of an operation that commits once, unless it fails. version is
// the version that the database reports, or 0. synced says that the commit is durable.
func (r *run) committed(err error, version uint64, synced bool, apply func() error) error {
	if err != nil {
		return r.excuse(err, apply)
	}
	if version != 0 && version != r.last+1 {
		return fmt.Errorf("the commit has version %d, want %d", version, r.last+1)
	}
	if err := apply(); err != nil {
		return err
	}
	if synced {
		r.durable = r.last
	}
	return nil
}

// durability draws the durability of a commit.
func (r *run) durability() (d stoat.Durability, synced bool) {
	d = testkit.RandomDurability(r.rng)
	return d, d == stoat.Synced
}
