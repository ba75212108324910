package mixture

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// An op is what a write does.
type op byte

const (
	set      op = 's'
	del      op = 'd'
	merge    op = 'm'
	renew    op = 'r'
	delRange op = 'R'
)

// A write is one write of a transaction, a batch or an ingest.
type write struct {
	space *space
	op    op
	key   string // or the beginning of a range
	end   string // the end of a range; empty for a range without an end
	value string // or the operand of a merge
	// expires is the expiry in ms since 1970, or 0 for never. byDefault leaves the expiry to
	// the default of the keyspace.
	expires   uint64
	byDefault bool
	user      byte
	at        uint64 // the timestamp in a timed keyspace
	streamed  bool   // SetReader takes the place of Set where there is one
}

// String shows the write in the history.
func (w write) String() string {
	return fmt.Sprintf("%q/%d: %c %q to %q at %d, %.12q of %d bytes, expires %d, default %v",
		w.space.name, w.space.id, w.op, w.key, w.end, w.at, w.value, len(w.value), w.expires, w.byDefault)
}

// covers reports whether a range has a key.
func (w write) covers(key string) bool { return key >= w.key && (w.end == "" || key < w.end) }

// options returns the options of a set. The first one is the expiry, unless it is left to the
// default.
func (w write) options() (o []stoat.SetOption) {
	if !w.byDefault {
		at := time.Time{}
		if w.expires != 0 {
			at = time.UnixMilli(int64(w.expires))
		}
		o = append(o, stoat.ExpiresAt(at))
	}
	return append(o, stoat.UserMeta(w.user))
}

// expiresAt returns the expiry of a set that is committed now.
func (w write) expiresAt(now uint64) uint64 {
	switch {
	case !w.byDefault:
		return w.expires
	case w.space.settings.ttlMs > 0:
		return now + uint64(w.space.settings.ttlMs)
	}
	return 0
}

// A writer is a transaction or a batch.
type writer interface {
	Set(key, value []byte, opts ...stoat.SetOption) error
	Delete(key []byte) error
	Merge(key, operand []byte) error
	Renew(key []byte, expiry stoat.SetOption) error
	DeleteRange(lower, upper []byte) error
}

// A timedWriter is a transaction or a batch at a timestamp.
type timedWriter interface {
	Set(key, value []byte, opts ...stoat.SetOption) error
	Delete(key []byte) error
	PurgeRange(lower, upper []byte) error
}

// A streamWriter is a writer that also takes values from readers.
type streamWriter interface {
	SetReader(key []byte, value io.Reader, opts ...stoat.SetOption) error
}

// toTxn writes to a transaction.
func (w write) toTxn(tx stoat.Txn) error {
	tx = tx.In(w.space.ks)
	if w.space.kind == timed {
		return w.toTimed(tx.At(w.at))
	}
	return w.to(tx)
}

// toBatch writes to a batch.
func (w write) toBatch(b stoat.Batch) error {
	b = b.In(w.space.ks)
	if w.space.kind == timed {
		return w.toTimed(b.At(w.at))
	}
	return w.to(b)
}

func (w write) to(to writer) error {
	key := []byte(w.key)
	switch w.op {
	case del:
		return to.Delete(key)
	case merge:
		return to.Merge(key, []byte(w.value))
	case renew:
		return to.Renew(key, w.options()[0])
	case delRange:
		return to.DeleteRange(key, w.upper())
	}
	if s, ok := to.(streamWriter); ok && w.streamed {
		return s.SetReader(key, strings.NewReader(w.value), w.options()...)
	}
	return to.Set(key, []byte(w.value), w.options()...)
}

func (w write) toTimed(to timedWriter) error {
	key := []byte(w.key)
	switch w.op {
	case del:
		return to.Delete(key)
	case delRange:
		return to.PurgeRange(key, w.upper())
	}
	if s, ok := to.(streamWriter); ok && w.streamed {
		return s.SetReader(key, strings.NewReader(w.value), w.options()...)
	}
	return to.Set(key, []byte(w.value), w.options()...)
}

// upper returns the end of a range, or nil if it has none.
func (w write) upper() []byte {
	if w.end == "" {
		return nil
	}
	return []byte(w.end)
}

// write draws a write.
func (r *run) write(s *space) write {
	w := r.newSet(s)
	switch n := r.rng.IntN(20); {
	case n < 3:
		w.op = del
	case n < 4:
		w.op = delRange
		other := r.key()
		w.key, w.end = min(w.key, other), max(w.key, other)+"\x00"
		if r.rng.IntN(8) == 0 {
			w.end = ""
		}
	case n < 8 && s.kind != timed:
		w.op = merge
		w.value = fmt.Sprintf("m%d.%s", r.values, testkit.Filled(r.rng.IntN(60)))
	case n < 10 && s.kind != timed:
		w.op, w.byDefault = renew, false
		w.expires = []uint64{0, r.now() + r.rng.Uint64N(5000)}[r.rng.IntN(2)]
	}
	return w
}

// newSet draws a set.
func (r *run) newSet(s *space) write {
	w := write{space: s, op: set, key: r.key()}
	n := []int{0, 10, 100, 100, 600, 3000}[r.rng.IntN(6)]
	if r.rng.IntN(40) == 0 {
		n = 20_000
	}
	mark := ""
	if s.kind == filtered {
		mark = []string{dropMark, editMark, "keep", "keep"}[r.rng.IntN(4)]
	}
	r.values++
	w.value = fmt.Sprintf("%sv%d.%s", mark, r.values, testkit.Filled(r.rng.IntN(n+1)))
	w.at = s.discard + r.rng.Uint64N(30)
	w.byDefault = r.rng.IntN(2) == 0
	if !w.byDefault && r.rng.IntN(2) == 0 {
		w.expires = r.now() + r.rng.Uint64N(5000)
	}
	w.user = byte(r.rng.IntN(3))
	w.streamed = r.rng.IntN(8) == 0
	return w
}
