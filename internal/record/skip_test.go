package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// skimmed returns all records that verify.
func skimmed(t *testing.T, file []byte, salt uint64) (records [][]byte) {
	t.Helper()
	r := NewReader(bytes.NewReader(file), int64(len(file)), salt, nil)
	for {
		rec, err := r.NextRecord()
		if err == io.EOF {
			return records
		}
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) {
				t.Fatal(err)
			}
			ok, err := r.Skip()
			if err != nil && !errors.Is(err, base.ErrCorrupt) {
				t.Fatal(err)
			}
			if !ok {
				return records
			}
			continue
		}
		if rec.Kind == Whole {
			records = append(records, bytes.Clone(rec.Payload))
		}
	}
}

func TestSkip_LosesOnlyDamagedRecords(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		file := newTestFile(rng, 10, 60)
		all := skimmed(t, file.bytes, testSalt)
		damaged := bytes.Clone(file.bytes)
		at := Start + rng.IntN(len(damaged)-Start)
		damaged[at] ^= 1 << rng.IntN(8)
		got := skimmed(t, damaged, testSalt)
		if len(got) < len(all)-2 && file.durable > int64(at) {
			t.Fatalf("seed %d: one bit at %d of %d loses %d of %d records", seed, at, len(damaged), len(all)-len(got), len(all))
		}
		for _, rec := range got {
			if !slices.ContainsFunc(all, func(w []byte) bool { return bytes.Equal(w, rec) }) {
				t.Fatalf("seed %d: a record was never written", seed)
			}
		}
	}
}

// FuzzSkip reads what verifies of a damaged file.
func FuzzSkip(f *testing.F) {
	f.Add(uint64(1), []byte{1, 2, 3, 4, 0, 9})
	f.Fuzz(func(t *testing.T, seed uint64, changes []byte) {
		file := newTestFile(rand.New(rand.NewPCG(seed%64, 1)), 10, 60)
		damaged := bytes.Clone(file.bytes)
		for ; len(changes) >= 3; changes = changes[3:] {
			damaged[Start+(int(changes[0])<<8|int(changes[1]))%(len(damaged)-Start)] ^= changes[2]
		}
		all := skimmed(t, file.bytes, testSalt)
		for _, rec := range skimmed(t, damaged, testSalt) {
			if !slices.ContainsFunc(all, func(w []byte) bool { return bytes.Equal(w, rec) }) {
				t.Fatal("a record was never written")
			}
		}
	})
}
