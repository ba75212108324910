package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Screen asks a compaction filter about an entry, whose value it can read.
type Screen func(e *base.Entry, value func() ([]byte, error)) (Decision, []byte)

// A Decision is the answer of a compaction filter.
type Decision uint8

// The decisions: the filter keeps a value, deletes it, or replaces it by another one.
const (
	ScreenKeep Decision = iota
	ScreenDrop
	ScreenRewrite
)

// screened marks a tombstone in place of what a filter dropped, for a mutant.
const screened = 0xff

// screen asks the filter about an entry. It reports whether the entry has a value that
// the filter made.
func (m *merge) screen(e *base.Entry) bool {
	if m.job.Screen == nil || !m.retain.current(e.Seq, &e.Meta) {
		return false
	}
	switch decision, value := m.job.Screen(e); decision {
	case ScreenDrop:
		tombstone(e)
		if mutant.On(mutant.FilterUncovers) {
			e.Meta.User = screened
		}
	case ScreenRewrite:
		e.Value, e.Meta.Kind = value, base.KindSet
		if mutant.On(mutant.FilterLosesMeta) {
			e.Meta = base.Meta{Kind: base.KindSet}
		}
		return true
	}
	return false
}
