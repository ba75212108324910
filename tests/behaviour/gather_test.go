package behaviour

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// churnJumpsMax is how often a scan may go on in another file when nearly every
// key did so before. A gathering may leave one table, about a quarter of the keys here.
// Where collection has put small files together meanwhile, that table may have a few
// jumps less than is worth another gathering.
const churnJumpsMax = gatheredKeys / 4

// gatheredKeys is a number of keys that is worth gathering.
const gatheredKeys = 12_000

func TestGather_OverwrittenValuesLieInKeyOrderAfterARest(t *testing.T) {
	inChurnOf(t, gatheredKeys, func(c *churn) {
		rng := rand.New(rand.NewPCG(7, 8))
		c.load(rng)
		for range 3 * c.keys / churnBatch {
			c.write(rng, func(int) int { return rng.IntN(c.keys) })
			synctest.Wait() // each memtable is flushed by itself
		}
		before := c.db.Stats()
		peak := c.watchPeak()
		time.Sleep(time.Minute)
		synctest.Wait()
		worst := float64(peak.Load()) / float64(c.live())
		after := c.db.Stats()
		t.Logf("%d jumps between %d files, then %d between %d; %d gathered, %d collected for %d of values; at most %.2f of what is live, then %.2f",
			before.ValueJumps, before.Values, after.ValueJumps, after.Values, after.GatheredBytes,
			after.CollectedBytes-before.CollectedBytes, after.ValueBytes, worst, c.share())
		if after.ValueJumps > churnJumpsMax {
			t.Errorf("a scan jumps %d times between %d value files", after.ValueJumps, after.Values)
		}
		if now := c.share(); now > 1.18 {
			t.Errorf("the directory takes %.3f of what is live", now)
		}
		// So few values are gathered at once, whatever garbage there is. Both copies are on the
		// disk then, beside garbage and files that wait for their removal.
		if worst > 3 {
			t.Errorf("gathering took the disk to %.2f of what is live", worst)
		}
		// From then on there is nothing to do.
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if last := c.db.Stats(); last.GatheredBytes != after.GatheredBytes || last.CollectedBytes != after.CollectedBytes || last.CompactedBytes != after.CompactedBytes {
			t.Errorf("at rest it goes on writing: %+v, before %+v", last, after)
		}
	})
}
