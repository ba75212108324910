package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// ingestKinds are the operations that write past the log.
var ingestKinds = []opKind{
	{"ingest", 12, opIngest},
	{"ingest what a transaction has read", 6, opIngestRead},
}

// opIngest ingests a few keys, or as many as fill several tables.
func opIngest(r *Run, rng *rand.Rand) error {
	n := 1 + rng.IntN(20)
	if rng.IntN(8) == 0 {
		n = 400
	}
	var writes []model.Write
	for range n {
		v := r.value(rng)
		switch rng.IntN(6) {
		case 0:
			v.ExpiresAt = r.clock.Seen() + uint64(rng.IntN(40))
		case 1:
			v.User = byte(rng.Uint32())
		}
		writes = append(writes, model.Write{Key: r.keys.pick(rng), Version: v})
	}
	if rng.IntN(4) == 0 {
		return r.ingestBy(testkit.BulkLoad, writes)
	}
	return r.ingest(writes)
}

// opIngestRead ingests a key that an open transaction has read, or passed over.
func opIngestRead(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	key := r.keys.pick(rng)
	if err := r.get(p, key); err != nil {
		return err
	}
	if err := r.Write(p, r.keys.pick(rng), r.value(rng)); err != nil {
		return err
	}
	return r.ingest([]model.Write{{Key: key, Version: r.value(rng)}})
}

// IngestSome ingests n times, random values of up to size more bytes than 16.
func IngestSome(t *testing.T, r *Run, n, size int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	for range n {
		var writes []model.Write
		for range 1 + rng.IntN(12) {
			writes = append(writes, model.Write{Key: r.keys.key(rng.IntN(12)), Version: model.Version{Value: testkit.RandomValue(rng, size)}})
		}
		testkit.Must(t, r.ingest(writes))
	}
}

// ingest ingests writes on both sides, in the order of their keys.
func (r *Run) ingest(writes []model.Write) error {
	way := testkit.Ingest
	if len(writes)%2 == 0 {
		way = testkit.IngestFiles
	}
	return r.ingestBy(way, testkit.Ingestible(writes))
}

// ingestBy is ingest in a way that takes writes in this order. The order of async commits
// and an ingest is not known before they end.
func (r *Run) ingestBy(way func(*stoat.DB, *stoat.Keyspace, []model.Write) (uint64, error), writes []model.Write) error {
	if err := r.settle(); err != nil {
		return err
	}
	m := r.Model.Begin(r.Model.Last(), true)
	for _, w := range writes {
		m.Write(w.Key, w.Version)
	}
	seq, ok := m.Commit()
	if !ok {
		return errors.New("the model finds a conflict of an ingest")
	}
	r.say("ingest %d entries from %.40q to %.40q: commit %d", len(writes), writes[0].Key, writes[len(writes)-1].Key, seq)
	r.Work.calls++
	version, err := way(r.DB, r.spaces.home, writes)
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	if version != seq {
		return fmt.Errorf("the ingest has version %d, want %d", version, seq)
	}
	r.known, r.durable = seq, seq
	return nil
}
