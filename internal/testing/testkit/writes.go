package testkit

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
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

// SetKey is the write of one of the numbered keys of the random writes.
func SetKey(key int, value string) model.Write {
	return model.Write{Key: fmt.Sprintf("key%03d", key), Version: model.Version{Value: value}}
}

// RandomValue makes a value of up to n bytes that no other value starts like.
func RandomValue(rng *rand.Rand, n int) string {
	return fmt.Sprintf("%016x", rng.Uint64()) + strings.Repeat("v", rng.IntN(n+1))
}

// tail is the merge function of the random writes.
var tail = model.Tail{Keep: 600}

// Merging gives o the merge function of the random writes.
func Merging(o stoat.Options) stoat.Options {
	o.MergeFunction, o.MergeFunctions = tail.Name(), []stoat.MergeFunction{tail}
	return o
}

// MergeKey is a merge into one of a few keys, which never expire.
func MergeKey(key int, operand string) model.Write {
	return model.Write{Key: fmt.Sprintf("sum%03d", key), Version: model.Version{
		Steps: &model.Steps{{Operand: operand, Tail: tail}}}}
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

// MergeBatch is RandomBatch, and sometimes merges into one of a few keys. The database
// must be Merging.
func MergeBatch(rng *rand.Rand, keys, n int) []model.Write {
	writes := RandomBatch(rng, keys, n)
	for key := range rng.IntN(3) {
		writes = append(writes, MergeKey(key, RandomValue(rng, 20)))
	}
	return writes
}

// Put sets or deletes the key of w in tx.
func Put(to Writer, w model.Write) error {
	key, value := []byte(w.Key), []byte(w.Value)
	if w.Deleted {
		return to.Delete(key)
	}
	if w.Steps != nil {
		for _, s := range *w.Steps {
			if err := to.Merge(key, []byte(s.Operand)); err != nil {
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
