package crash

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A nonceUse is what must be unique: a key and a nonce.
type nonceUse struct {
	key   [16]byte // the first bytes of a hash of the key
	nonce [12]byte
}

// CheckNonces runs workloads of encrypted databases with crashes, and opens what is left
// in many ways. It demands that no nonce is used twice with one key, except for the same
// text. It sees every seal of the process, so nothing else may run meanwhile.
func CheckNonces(seed uint64, workloads, states int) error {
	var mu sync.Mutex
	var repeated error
	seen := make(map[nonceUse][16]byte)
	stop := seal.Watch(func(u seal.Use) {
		use := nonceUse{key: [16]byte(u.Key[:16]), nonce: u.Nonce}
		text := [16]byte(u.Text[:16])
		mu.Lock()
		defer mu.Unlock()
		if before, ok := seen[use]; ok && before != text && repeated == nil {
			repeated = fmt.Errorf("the nonce %x has sealed two texts with the key %x", u.Nonce, use.key)
		}
		seen[use] = text
	})
	defer stop()
	if err := streamLarge(); err != nil {
		return err
	}
	for i := range workloads {
		w := allWorkloads[(int(seed)+7*i)%len(allWorkloads)]
		check := []Check{CheckOnce, CheckTwice}[i%2]
		if err := checkWith(testkit.Keys, w, seed, states, new(testkit.WorkTally), check); err != nil {
			return fmt.Errorf("workload %q: %w", w.name, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 100*workloads && repeated == nil {
		return fmt.Errorf("only %d nonces were seen", len(seen))
	}
	return repeated
}

// streamLarge gives a database a value of many chunks as a reader. The header of such a
// value is written last, over a page that is sealed already.
func streamLarge() error {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Keys: testkit.Keys})
	if err != nil {
		return err
	}
	err = db.Update(func(tx stoat.Txn) error {
		return tx.SetReader([]byte("large"), testkit.Patterned(3<<20))
	})
	return errors.Join(err, db.Close())
}
