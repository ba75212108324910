package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
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

// A nonceWatch notes each seal of the process.
type nonceWatch struct {
	mu sync.Mutex
	// seen has the texts of the seals of one workload, used the keys of earlier ones. No
	// two databases share a key, so seen can begin anew with each workload.
	seen     map[nonceUse][16]byte
	used     map[[16]byte]struct{}
	seals    int
	repeated error
}

func (w *nonceWatch) note(u seal.Use) {
	use := nonceUse{key: [16]byte(u.Key[:16]), nonce: u.Nonce}
	text := [16]byte(u.Text[:16])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seals++
	_, old := w.used[use.key]
	if before, ok := w.seen[use]; (old || ok && before != text) && w.repeated == nil {
		w.repeated = fmt.Errorf("the nonce %x has sealed two texts with the key %x", u.Nonce, use.key)
	}
	w.seen[use] = text
}

// next begins the next workload. It returns the number of seals until now.
func (w *nonceWatch) next() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for use := range w.seen {
		w.used[use.key] = struct{}{}
	}
	w.seen = make(map[nonceUse][16]byte)
	return w.seals, w.repeated
}

// CheckNonces runs workloads of encrypted databases with crashes, and opens what is left
// in many ways, until there were so many seals. It demands that no nonce is used twice with
// one key, except for the same text. It sees every seal of the process, so nothing else may
// run meanwhile. It returns the number of keys.
func CheckNonces(seed uint64, seals, states int) (keys int, err error) {
	w := nonceWatch{seen: make(map[nonceUse][16]byte), used: make(map[[16]byte]struct{})}
	stop := seal.Watch(w.note)
	defer stop()
	if err := streamLarge(); err != nil {
		return 0, err
	}
	for i, n := 0, 0; n < seals; i++ {
		load := allWorkloads[(int(seed%1000)+7*i)%len(allWorkloads)]
		check := []Check{CheckOnce, CheckTwice}[i%2]
		if err := checkWith(testkit.Keys, load, seed+uint64(i/len(allWorkloads)), states, new(testkit.WorkTally), check); err != nil {
			return 0, fmt.Errorf("workload %q: %w", load.name, err)
		}
		if err := busyLife(seed+uint64(i), min(seals-n, commitsOfLife)); err != nil {
			return 0, fmt.Errorf("busy life %d: %w", i, err)
		}
		before := n
		if n, err = w.next(); err != nil {
			return 0, err
		}
		if n == before {
			return 0, fmt.Errorf("workload %q sealed nothing", load.name)
		}
	}
	return len(w.used), nil
}

// commitsOfLife is the number of commits of a busyLife, at most.
const commitsOfLife = 200_000

// busyLife makes small commits in an encrypted database, of which each seals a frame of
// the log. After each fifth of them the power fails, and keeps any part of what was not
// synced.
func busyLife(seed uint64, commits int) error {
	rng := rand.New(rand.NewPCG(seed, 31))
	fs := memfs.New()
	for range 5 {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{
			FS: fs, Keys: testkit.Keys, MemtableSize: 1 << 20, Durability: stoat.Buffered,
		})
		if err != nil {
			return err
		}
		for range commits / 5 {
			key := binary.BigEndian.AppendUint32(nil, rng.Uint32N(1<<16))
			if err := db.Update(func(tx stoat.Txn) error { return tx.Set(key, key) }); err != nil {
				return errors.Join(err, db.Close())
			}
		}
		left := testkit.RandomCut(rng)(fs)
		if err := db.Close(); err != nil {
			return err
		}
		fs = left
	}
	return nil
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
