package commit

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// To find out what is overwritten takes as long as all writes together. A transaction may ask
// after each of its writes.
func TestShrink_LooksAgainOnlyOnceTheWritesHaveDoubled(t *testing.T) {
	t.Parallel()
	store := newStore()
	defer store.Abandon()
	c := New(Options{Store: store, MemtableSize: storeMemtable})
	w := c.NewWriteSet()
	set := func(key string) {
		t.Helper()
		value := make([]byte, 1000)
		if err := w.Pending.Set([]byte(key), value, base.Hash([]byte(key), 0), base.Meta{Kind: base.KindSet}, 0); err != nil {
			t.Fatal(err)
		}
		c.Shrink(w)
	}
	for i := range 3000 {
		set(fmt.Sprintf("%06d", i))
	}
	if size := w.Pending.Bytes(); w.shrinkFrom <= size {
		t.Errorf("of %d bytes nothing is overwritten, and Shrink looks again at %d", size, w.shrinkFrom)
	}
	most := int64(0)
	for range 100_000 {
		set("one key")
		most = max(most, w.Pending.Bytes())
	}
	if most > 60<<20 {
		t.Errorf("3 MB of live writes took %d bytes", most)
	}
	c.FreeWriteSet(w)
	if w := c.NewWriteSet(); w.shrinkFrom != 0 {
		t.Errorf("the next transaction begins at %d", w.shrinkFrom)
	}
}
