package values

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/codec"
)

// Several goroutines read, some of them in parts, while another gives the memory back.
func TestGiveBack_BesideConcurrentReads(t *testing.T) {
	t.Parallel()
	values := randomValues(rand.New(rand.NewPCG(1, 7)), 200)
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.S2})
	r := mustOpen(t, data, testSalt)
	var all sync.WaitGroup
	for worker := range uint64(4) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(worker, 8))
			for range 500 {
				s := values[rng.IntN(len(values))]
				if got, err := r.Get(s.p, s.key, s.seq, nil); err != nil || !bytes.Equal(got, s.value) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				if rng.IntN(20) == 0 {
					if _, err := r.NewValueReader(s.p, s.key, s.seq); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			if err := r.DropPages(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}
