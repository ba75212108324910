package workload

import (
	"errors"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// churnTimes is how often the whole amount of data is overwritten.
const churnTimes = 3

// runChurn writes every key once, overwrites three times as many randomly drawn
// keys without syncs, and then lets the store collect its garbage. Space is
// recorded as a ratio to the live data.
func runChurn(r *Run) error {
	s, err := r.open(r.unsynced(loadWriters))
	if err != nil {
		return err
	}
	c := &churn{run: r, store: s, versions: make([]uint32, r.population.Count)}
	r.harnessBytes += int64(4 * len(c.versions))
	if err := c.measure(); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := r.close(s); err != nil {
		return err
	}
	if err := r.finishLeftWork(); err != nil {
		return err
	}
	c.setSpace("space_end", r.result.Metrics["allocated_mb"]*megabyte)
	return nil
}

// A churn knows the final version of every key, because only one writer
// overwrites a key.
type churn struct {
	run      *Run
	store    stores.Store
	versions []uint32
}

func (c *churn) measure() error {
	r := c.run
	before, err := r.startCost()
	if err != nil {
		return err
	}
	began := time.Now()
	sampler := measure.StartSampler(r.job.Dir, nil)
	err = c.write()
	if err == nil {
		err = c.store.Sync()
	}
	wrote := time.Since(began)
	if err == nil {
		r.settle("settle")
		err = c.noteSpace("space_idle")
	}
	collecting := time.Now()
	if err == nil {
		err = c.store.Collect()
	}
	collected := time.Since(collecting).Round(time.Millisecond)
	peaks, _ := sampler.Stop()
	if err != nil {
		return err
	}
	r.set("write_s", wrote.Seconds())
	r.set("collect_s", collected.Seconds())
	r.set("total_s", (wrote + collected).Seconds())
	r.settle("collect_settle")
	if err := before.note("", r.population.UserBytes((1+churnTimes)*r.population.Count)); err != nil {
		return err
	}
	r.setMemory("", peaks)
	c.setSpace("space_peak", float64(peaks.SpaceBytes))
	return r.verify(c.store, Full(r.population.Count), c.versions)
}

func (c *churn) write() error {
	first, err := c.firstLoad()
	if err != nil {
		return err
	}
	if _, err := c.run.measured(first, "load_"); err != nil {
		return err
	}
	// The buffers of the first load serve the second.
	again := c.overwrite(first.buffers)
	_, err = c.run.measured(again, "overwrite_")
	return err
}

// firstLoad writes every key once, in random order.
func (c *churn) firstLoad() (*load, error) {
	count := c.run.population.Count
	order := NewPermutation(count)
	return c.run.sequenceLoad(c.store, loadWriters, count, func(i uint64) (key, version uint64) { return order.At(i), 0 })
}

// overwrite writes randomly drawn keys; each writer draws from its own keys.
func (c *churn) overwrite(buffers []*stores.Batch) *load {
	p := &c.run.population
	ops, total := batchOps(p.Count), churnTimes*p.Count
	l := &load{store: c.store, writers: loadWriters, buffers: buffers, batches: (total + ops - 1) / ops}
	l.fill = func(b *stores.Batch, writer int, batch uint64) {
		var text Key
		ranges(batch, ops, total, func(i uint64) {
			key := ownedKey(p.Draw(i+p.Count), uint64(writer), p.Count)
			c.versions[key]++
			p.Keys.Put(&text, key)
			p.Values.Fill(b.Reserve(text[:], p.Values.Size), key, uint64(c.versions[key]))
		})
	}
	return l
}

// ownedKey returns a key near the drawn one that belongs to that writer.
func ownedKey(key, writer, count uint64) uint64 {
	key = key - key%loadWriters + writer
	if key >= count {
		key -= loadWriters
	}
	return key
}

func (c *churn) noteSpace(name string) error {
	space, err := measure.DirSpace(c.run.job.Dir)
	if err != nil {
		return err
	}
	c.setSpace(name, float64(space.AllocatedBytes))
	return nil
}

func (c *churn) setSpace(name string, allocatedBytes float64) {
	live := c.run.population.UserBytes(c.run.population.Count)
	c.run.set(name+"_mb", allocatedBytes/megabyte)
	c.run.set(name+"_per_live_byte", allocatedBytes/live)
}
