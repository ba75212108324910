package tree

import (
	"testing"

	"github.com/stoatdb/stoat/internal/readset"
)

// A large database has many tables, and most of them are older than every transaction.
func TestConflicts_AsksNoTableOfALevelThatHasNothingNewer(t *testing.T) {
	t.Parallel()
	v := &View{levels: []level{{tables: []*Table{nil}, newest: 5}}}
	var reads readset.Set
	reads.AddKey([]byte("k"), 1)
	if hit, err := v.Conflicts(&reads, 5); hit || err != nil {
		t.Errorf("%t, %v", hit, err)
	}
}
