package seal

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/mutant"
)

// newest returns the data key for a new file. It makes one if the newest is old. If that
// fails, the newest is good enough, and the next file tries again.
func (k *Keys) newest() dataKey {
	f := k.now()
	if !k.settled() {
		return f.keys[0] // each KEYS of the database has it
	}
	last := f.keys[len(f.keys)-1]
	age := k.o.Clock.Now().UnixMilli() - last.made
	age = max(age, -age) // the clock was wrong when a key from the future was made
	if k.o.ReadOnly || mutant.On(mutant.KeepDataKey) || age < k.o.MaxAge.Milliseconds() {
		return last
	}
	if len(f.keys) == keysMax {
		k.full.Do(k.reportFull)
		return last
	}
	if !k.changing.TryLock() {
		return last
	}
	defer k.changing.Unlock()
	return k.renewLocked(last)
}

// renewLocked returns a data key that replaces last, the newest one. It returns last if that
// fails. The caller holds changing.
func (k *Keys) renewLocked(last dataKey) dataKey {
	f := k.now()
	if f.keys[len(f.keys)-1].id != last.id {
		return f.keys[len(f.keys)-1]
	}
	// The clock may have gone back since.
	if wait := k.askAgain.Sub(k.o.Clock.Now()); wait > 0 && wait <= askAgainAfter {
		return last
	}
	fresh, err := k.unsure, error(nil)
	if fresh.id == 0 {
		fresh, err = k.newKey(last.id + 1)
	}
	if err != nil {
		return last
	}
	master, err := k.answer(f.master)
	if checkMaster(f.master, master, err) != nil || !f.sealedWith(master) {
		k.askAgain = k.o.Clock.Now().Add(askAgainAfter)
		return last
	}
	k.unsure = fresh
	if k.replace(keyFile{master: f.master, keys: k.withUnsure(f.keys)}, master) != nil {
		k.askAgain = k.o.Clock.Now().Add(askAgainAfter)
		return last
	}
	return fresh
}

// newKey returns a new data key.
func (k *Keys) newKey(id uint32) (dataKey, error) {
	d := dataKey{id: id, made: max(0, k.o.Clock.Now().UnixMilli())}
	_, err := io.ReadFull(k.o.Random, d.key[:])
	return d, err
}

// withUnsure returns the data keys for the next KEYS. The caller holds changing, or is the
// only user.
func (k *Keys) withUnsure(keys []dataKey) []dataKey {
	if k.unsure.id == 0 {
		return keys
	}
	return append(keys[:len(keys):len(keys)], k.unsure)
}

func (k *Keys) reportFull() {
	if k.o.Report != nil {
		k.o.Report(event.Warning{What: "a data key that is due was not made", Err: errFull})
	}
}

// errFull says that KEYS has no room for another data key.
var errFull = fmt.Errorf("the file %s has %d data keys, and may have no more", KeysName, keysMax)

const (
	// providerPatience is how long a new file waits for the provider. It can do without the
	// answer, which then serves a later file. Commits that need another file wait meanwhile,
	// and so does Close.
	providerPatience = time.Second
	// readerPatience is how long a reader of a file with a new data key waits. It needs the
	// answer.
	readerPatience = 3 * time.Second
	// askAgainAfter is the pause after an answer that was of no use, or a KEYS that could not
	// be replaced.
	askAgainAfter = time.Minute
)

// answer is Provider.Key for a caller that can do without the answer.
func (k *Keys) answer(id string) (key []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), providerPatience)
	defer cancel()
	return k.o.Provider.Key(ctx, id)
}
