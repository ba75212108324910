package testkit

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// SetKeys gives keys [from, to) values of size bytes in batches.
func SetKeys(t *testing.T, db *stoat.DB, from, to, size int, fill byte) {
	t.Helper()
	value := make([]byte, size)
	for i := range value {
		value[i] = fill
	}
	for from < to {
		Must(t, db.Update(func(tx stoat.Txn) error {
			for end := min(from+50, to); from < end; from++ {
				if err := tx.Set(Key(from), value); err != nil {
					return err
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered)))
	}
}

// DeleteKeys deletes keys [from, to) in one transaction.
func DeleteKeys(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	Must(t, db.Update(func(tx stoat.Txn) error {
		for ; from < to; from++ {
			if err := tx.Delete(Key(from)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// SetKey is the write of one of the numbered keys of the random writes. Some keys contain
// the sentinel, and are longer for it.
func SetKey(key int, value string) model.Write {
	w := model.Write{Key: fmt.Sprintf("key%03d", key), Version: model.Version{Value: value}}
	if key%8 == 5 {
		w.Key += Sentinel
	}
	return w
}

// RandomValue makes a value of up to n bytes more than 16 that no other value starts
// like.
func RandomValue(rng *rand.Rand, n int) string {
	return fmt.Sprintf("%016x", rng.Uint64()) + Filled(rng.IntN(n+1))
}

// tail is the merge function of the random writes.
var tail = model.Tail{Keep: 600}

// MergeFunction names the merge function of the random writes.
var MergeFunction = tail.Name()

// Merging gives o the merge function of the random writes.
func Merging(o stoat.Options) stoat.Options {
	o.MergeFunction, o.MergeFunctions = MergeFunction, []stoat.MergeFunction{tail}
	return o
}

// Combining is Merging with a function that combines operands. It has the same name.
func Combining(o stoat.Options) stoat.Options {
	o.MergeFunction, o.MergeFunctions = MergeFunction, []stoat.MergeFunction{model.CombiningTail{Tail: tail}}
	return o
}

// Past and Future are expiry times far from the time of any run, in ms since 1970.
const (
	Past   = ClockStart / 2
	Future = ClockStart * 2
)

// Merge is a step that merges an operand.
func Merge(operand string) model.Step {
	return model.Step{NowMs: ClockStart, Operand: operand, Tail: tail}
}

// Renew is a step that changes the expiry time to Past, to Future or to never, which
// is 0.
func Renew(expiresAt uint64) model.Step {
	return model.Step{NowMs: ClockStart, Renew: true, ExpiresAt: expiresAt}
}

// StepKey is the write of steps on a key whose versions expire at Past, at Future or
// never.
func StepKey(key string, steps ...model.Step) model.Write {
	s := model.Steps(steps)
	return model.Write{Key: key, Version: model.Version{Steps: &s}}
}

// RandomBatch makes writes of different keys, with random values of up to n more
// bytes than 16.
func RandomBatch(rng *rand.Rand, keys, n int) []model.Write {
	writes := make([]model.Write, 0, keys)
	for _, key := range rng.Perm(2 * keys)[:1+rng.IntN(keys)] {
		writes = append(writes, SetKey(key, RandomValue(rng, n)))
	}
	return writes
}

// MergeBatch is RandomBatch, and sometimes merges into a few keys, or renews them. The
// database must be Merging.
func MergeBatch(rng *rand.Rand, keys, n int) []model.Write {
	writes := RandomBatch(rng, keys, n)
	for key := range rng.IntN(3) {
		writes = append(writes, StepKey(fmt.Sprintf("sum%03d", key), RandomSteps(rng, 20)...))
	}
	return writes
}

// RandomSteps makes a few merges, of operands of up to n bytes more than 16, and renewals.
func RandomSteps(rng *rand.Rand, n int) []model.Step {
	var steps []model.Step
	for range 1 + rng.IntN(2) {
		switch rng.IntN(8) {
		case 0:
			steps = append(steps, Renew(Past))
		case 1:
			steps = append(steps, Renew(Future))
		case 2:
			steps = append(steps, Renew(0))
		default:
			steps = append(steps, Merge(RandomValue(rng, n)))
		}
	}
	return steps
}

// Put sets or deletes the key of w in tx.
func Put(to Writer, w model.Write) error {
	key, value := []byte(w.Key), []byte(w.Value)
	if w.Deleted {
		return to.Delete(key)
	}
	if w.Steps != nil {
		for _, s := range *w.Steps {
			if err := putStep(to, w.Key, s); err != nil {
				return err
			}
		}
		return nil
	}
	err := to.Set(key, value, setOptions(w)...)
	// The caller may do with its bytes what it likes.
	clear(key)
	clear(value)
	return err
}

// A Writer takes writes: a stoat.Txn or a stoat.Batch.
type Writer interface {
	Set(key, value []byte, opts ...stoat.SetOption) error
	Delete(key []byte) error
	Merge(key, operand []byte) error
	Renew(key []byte, expiry stoat.SetOption) error
}

// setOptions returns the metadata of a write.
func setOptions(w model.Write) (opts []stoat.SetOption) {
	if w.User != 0 {
		opts = append(opts, stoat.UserMeta(w.User))
	}
	if w.ExpiresAt != 0 {
		opts = append(opts, stoat.ExpiresAt(time.UnixMilli(int64(w.ExpiresAt))))
	}
	return opts
}

// A ReaderShape wraps a reader, so that it returns the same bytes in other portions.
type ReaderShape func(io.Reader) io.Reader

// ReaderShapes are readers that fill the buffer, half fill it, or return io.EOF
// together with the last bytes.
var ReaderShapes = []ReaderShape{
	func(r io.Reader) io.Reader { return r },
	iotest.HalfReader,
	iotest.DataErrReader,
}

// PutAs is Put with the value given as a reader. With a nil shape it is Put.
func PutAs(reader ReaderShape, tx stoat.Txn, w model.Write) error {
	if reader == nil || w.Deleted || w.Steps != nil {
		return Put(tx, w)
	}
	key, value := []byte(w.Key), []byte(w.Value)
	err := tx.SetReader(key, reader(bytes.NewReader(value)), setOptions(w)...)
	clear(key)
	clear(value)
	return err
}

// putStep merges or renews.
func putStep(to Writer, key string, s model.Step) error {
	switch {
	case !s.Renew:
		return to.Merge([]byte(key), []byte(s.Operand))
	case s.ExpiresAt == 0:
		return to.Renew([]byte(key), stoat.ExpiresAt(time.Time{}))
	}
	return to.Renew([]byte(key), stoat.ExpiresAt(time.UnixMilli(int64(s.ExpiresAt))))
}

// PutAll puts all of writes into a transaction or a batch.
func PutAll[W Writer](to W, writes []model.Write) error {
	for _, w := range writes {
		if err := Put(to, w); err != nil {
			return err
		}
	}
	return nil
}

// Key returns the i-th key of SetKeys and DeleteKeys.
func Key(i int) []byte { return fmt.Appendf(nil, "key-%06d", i) }

// LongValue returns a value of more than 100 bytes that belongs to the i-th key.
func LongValue(i int) []byte { return fmt.Appendf(nil, "value-%06d-%0100d", i, i) }

// Pieces returns writes in the pieces in which a batch of pieces of a size commits them.
// Of several writes of a key in one piece, it returns the last. They must be whole.
func Pieces(size int64, writes []model.Write) (pieces [][]model.Write) {
	used := int64(0)
	for _, w := range writes {
		n := int64(len(w.Key) + len(w.Value) + 32)
		if used == 0 || used+n > size {
			pieces, used = append(pieces, nil), 0
		}
		last := &pieces[len(pieces)-1]
		*last = append(slices.DeleteFunc(*last, func(o model.Write) bool { return o.Key == w.Key }), w)
		used += n
	}
	return pieces
}
