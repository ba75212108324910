package isolation

import (
	"sync/atomic"

	"github.com/stoatdb/stoat"
)

// A spelling is a compaction filter that spells the digits of values as letters, which no
// value has. Histories read letters as digits again. So a filter may rewrite values at
// any time, and no history may show a difference.
type spelling struct{ rewrites *atomic.Int64 }

// Name implements stoat.Filter.
func (spelling) Name() string { return "spelling" }

// Filter implements stoat.Filter.
func (s spelling) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	b, err := v.Bytes()
	if err != nil {
		return stoat.FilterKeep, nil
	}
	spelled, digits := mapped(b, '0', 'a')
	if digits == 0 {
		return stoat.FilterKeep, nil
	}
	s.rewrites.Add(1)
	return stoat.FilterRewrite, spelled
}

// respelled returns a value as a history wrote it.
func (s *storeUnderTest) respelled(value []byte) []byte {
	if s.filtered {
		value, _ = mapped(value, 'a', '0')
	}
	return value
}

// mapped replaces the ten characters from one on with those from another on. It returns
// how many it has replaced.
func mapped(value []byte, from, to byte) (changed []byte, n int) {
	for _, c := range value {
		if c >= from && c < from+10 {
			c, n = c-from+to, n+1
		}
		changed = append(changed, c)
	}
	return changed, n
}
