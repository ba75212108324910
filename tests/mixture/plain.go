package mixture

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/testing/model"
)

// applyPlain applies a commit to the history of a plain keyspace.
func (s *space) applyPlain(writes []write, seq, now uint64) error {
	t := s.history.Begin(s.history.Last(), true)
	t.NowMs = now
	for _, w := range writes {
		w.apply(t, now)
	}
	if !t.Dirty() {
		s.history.Commit(nil)
		return nil
	}
	if got, ok := t.CommitAt(now); !ok || got != seq {
		return fmt.Errorf("the model of %v is at commit %d, want %d", s, got, seq)
	}
	return nil
}

// apply applies a write of a plain keyspace to a transaction of its model.
func (w write) apply(t *model.Txn, now uint64) {
	switch w.op {
	case set:
		t.Write(w.key, model.Version{Value: w.value, ExpiresAt: w.expiresAt(now), User: w.user})
	case del:
		t.Write(w.key, model.Version{Deleted: true})
	case merge:
		t.Step(w.key, model.Step{Operand: w.value, Tail: tail})
	case renew:
		t.Step(w.key, model.Step{Renew: true, ExpiresAt: w.expires})
	case delRange:
		t.DeleteRange(w.key, w.end, w.end != "")
	}
}

// plainEntries is space.entries for a plain keyspace. Each key that is there needs one entry.
func (s *space) plainEntries(now uint64, versionsMax int) (least, most uint64) {
	t := s.history.Begin(s.history.Last(), false)
	for _, key := range s.history.Keys() {
		shown := shownVersions(t.VersionsOf(key), now, versionsMax)
		least, most = least+uint64(min(shown, 1)), most+uint64(shown)
	}
	return least, most
}

// shownVersions returns how many versions of a key a compaction may keep. A key that is gone
// needs none. Deleted or expired versions below a live one are not counted: a deletion at
// the bottom has nothing to delete, and an expired version becomes a deletion.
func shownVersions(all []model.Version, now uint64, versionsMax int) (n int) {
	if len(all) == 0 || !all[0].Live(now) {
		return 0
	}
	for _, v := range all {
		if v.Live(now) && n < versionsMax {
			n++
		}
	}
	return n
}
