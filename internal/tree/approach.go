package tree

import (
	"runtime"

	"github.com/stoatdb/stoat/internal/table"
)

// Approach prepares a seek to key in several iterators, which waits for their
// cache misses together; see table.Approach. What each of them then does, it
// does as if it had not been called.
func Approach(levels []Iter, key []byte) {
	if len(levels) < 2 || len(key) == 0 {
		return
	}
	var ask [table.ApproachMax]*table.Reader
	n := 0
	for i := range levels {
		it := &levels[i]
		at := it.level.after(key, false) - 1
		if at < 0 {
			continue
		}
		if r := it.level.tables[at].tableHandle.reader.Load(); r != nil {
			ask[n] = r
			if n++; n == len(ask) {
				break // of more levels the rest goes one by one
			}
		}
	}
	runtime.KeepAlive(table.Approach(ask[:n], key))
}
