package stoat

import (
	"maps"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
)

// damagedTables is the tables that a merge could not read. The work behind
// leaves them alone until the database is opened again: tried again and again
// they would keep it from the others. Compact does try again, and tells its caller.
type damagedTables struct {
	known atomic.Pointer[map[base.FileNum]bool] // never nil; no map in it ever changes
}

func (b *damagedTables) init() { b.known.Store(&map[base.FileNum]bool{}) }

// all returns the numbers of the tables.
func (b *damagedTables) all() map[base.FileNum]bool { return *b.known.Load() }

// note remembers the input of a plan that cannot be read, if err says that of one.
// The caller holds compacting.
func (b *damagedTables) note(plan *compact.Plan, err error) {
	for _, place := range plan.Drops() {
		if unreadable(err, base.TableName(place.Num)) && !b.all()[place.Num] {
			known := maps.Clone(b.all())
			known[place.Num] = true
			b.known.Store(&known)
		}
	}
}
