package workload

import (
	"testing"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A writeCounter counts the bytes that it is told to write.
type writeCounter struct {
	stores.Store
	bytes int
}

func (c *writeCounter) Apply(b *stores.Batch) error {
	for i := range b.Len() {
		op := b.At(i)
		c.bytes += len(op.Key) + len(op.Value)
	}
	return c.Store.Apply(b)
}

func TestCommit_TurnsTheLogOverAndLeavesNothing(t *testing.T) {
	t.Parallel()
	scale := 0.02
	r := &Run{job: Job{Scale: scale, Dir: t.TempDir()}, population: NewPopulation(commitKeys, Values{Size: 128})}
	store := &liar{data: map[string][]byte{}}
	c := &writeCounter{Store: store}
	if err := r.turnLog(c); err != nil {
		t.Fatal(err)
	}
	want := int(turnedMemtables * scale * float64(stores.MemtableBytesDefault))
	if entry := KeySize + 128; c.bytes < want-turnedKeys*entry || c.bytes > want+turnedKeys*entry {
		t.Errorf("wrote %d bytes, want about %d", c.bytes, want)
	}
	if len(store.data) != 0 {
		t.Errorf("%d keys are left", len(store.data))
	}
}
