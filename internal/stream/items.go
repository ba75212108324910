package stream

import (
	"bytes"
	"context"
	stditer "iter"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/stamp"
)

// An Item is a version of a key, or a deletion, as callers see it.
type Item struct {
	Key, Value, End    []byte
	Version, Timestamp uint64
	ExpiresAt          time.Time
	UserMeta           byte
	Deleted            bool
}

// Shape is any type with the fields of Item.
type Shape interface {
	~struct {
		Key, Value, End    []byte
		Version, Timestamp uint64
		ExpiresAt          time.Time
		UserMeta           byte
		Deleted            bool
	}
}

// An Entry is what a cursor shows.
type Entry interface {
	Key() []byte
	Value() ([]byte, error)
	Version() uint64
	Timestamp() uint64
	ExpiresAt() time.Time
	UserMeta() byte
	Deleted() bool
}

// A Cursor walks over keys of a keyspace, as callers see them.
type Cursor[E Entry] interface {
	Next() bool
	Item() E
	Value() []byte
	Err() error
	Close() error
}

// Items reads keys of one keyspace as items of type T.
type Items[E Entry, T Shape] struct {
	Snapshot Snapshot
	Space    *keyspace.Space
	// Timed says that the keyspace has timestamps.
	Timed bool
	// Lower, Upper and Prefix bound the keys, as those of an iterator.
	Lower, Upper, Prefix []byte
	// Deletions shows deletions of keys and of ranges after Since. The cursors then show
	// all versions.
	Deletions bool
	// AllVersions shows every version that the cursors show. Otherwise it shows the newest
	// of each key.
	AllVersions bool
	Since       uint64
	// Choose selects keys; nil selects all.
	Choose  func(key []byte) bool
	Ordered bool
	Workers int
	// KeysOnly reads no values.
	KeysOnly bool
	// Open returns a cursor over the keys from lo to hi; nil is no bound.
	Open func(lo, hi []byte) Cursor[E]
	// Get returns the entry of a key whose newest version is partial, or base.ErrNotFound.
	// Expired reports whether an expiry time has come.
	Get     func(key []byte) (E, error)
	Expired func(at uint64, own bool) bool
	// Check returns why the transaction of the snapshot cannot go on, or nil.
	Check func() error
}

// Run reads the items, and calls send with batches of them. A batch is valid until send
// returns.
func (s Items[E, T]) Run(ctx context.Context, send func([]T) error) error {
	lower, upper := base.WithPrefix(s.Lower, s.Upper, s.Prefix, nil)
	it := s.Open(lower, upper)
	if err := it.Err(); err != nil { // the keyspace was dropped, or is not of this database
		return err
	}
	if err := it.Close(); err != nil {
		return err
	}
	if upper != nil && bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	var spent sync.Pool // of *batch[T]
	return Run(ctx, Plan[Range, *batch[T]]{
		Workers: s.Workers, Ordered: s.Ordered && !mutant.On(mutant.StreamUnordered), Ranges: s.ranges(lower, upper), Check: s.Check,
		Send: func(b *batch[T]) error {
			err := send(b.items)
			clear(b.items)
			b.items, b.buf = b.items[:0], b.buf[:0]
			spent.Put(b)
			return err
		},
		Read: func(_ context.Context, r Range, emit func(*batch[T]) error) error {
			b := batcher[T]{emit: emit, spent: &spent, lendMin: lendMin}
			if s.Choose != nil || s.Since > 0 {
				b.lendMin = lendSparseMin
			}
			read := s.read
			if !s.Timed && !s.AllVersions && !s.Deletions {
				read = s.scan
			}
			if err := read(r, &b); err != nil {
				return err
			}
			return b.flush()
		},
	})
}

// scan is read for the newest versions, without iterators: it reads the values of many keys
// together. Where nothing is newer than Since, it reads nothing.
func (s *Items[E, T]) scan(r Range, b *batcher[T]) error {
	scan, err := s.Snapshot.scan(Range{s.stored(r.Lo, false), s.stored(r.Hi, true)}, base.SeqNum(s.Since), scanOptions{keysOnly: s.KeysOnly, newer: true})
	if err != nil {
		return err
	}
	defer scan.Close()
	scan.sparse = s.Choose != nil
	var last []byte
	for scan.Next() {
		e := &scan.Entry
		if bytes.Equal(e.Key, last) {
			continue
		}
		if e.Meta.Kind == base.KindDelete && mutant.On(mutant.StreamBeforeDeletion) {
			continue
		}
		last = append(last[:0], e.Key...)
		key := e.Key[s.Space.Skip(e.Key):]
		if uint64(e.Seq) <= s.Since || e.Meta.Kind == base.KindDelete || s.Choose != nil && !s.Choose(key) ||
			e.Meta.ExpiresAt != 0 && s.Expired(e.Meta.ExpiresAt, false) {
			continue
		}
		i := Item{Version: uint64(e.Seq), ExpiresAt: base.ExpiryTime(e.Meta.ExpiresAt), UserMeta: e.Meta.User}
		switch {
		case e.Meta.Kind.Partial():
			var there bool
			if i, there, err = s.folded(key); err == nil && !there {
				continue
			}
		case !s.KeysOnly:
			i.Value, err = scan.Value()
		}
		if err == nil {
			i.Key = key
			err = b.add(&i)
		}
		if err != nil {
			return err
		}
	}
	return scan.Err()
}

// folded returns the item of a key whose newest version is partial, without its key. It
// reports false if the key has no value.
func (s *Items[E, T]) folded(key []byte) (i Item, ok bool, err error) {
	e, err := s.Get(key)
	if err == base.ErrNotFound { // not errors.Is: a merge function may have failed with it
		return i, false, nil
	}
	if err != nil {
		return i, false, err
	}
	i = Item{Version: e.Version(), ExpiresAt: e.ExpiresAt(), UserMeta: e.UserMeta()}
	if !s.KeysOnly {
		i.Value, err = e.Value()
	}
	return i, true, err
}

// stored returns the stored form of a bound. A nil bound is that of the keyspace.
func (s *Items[E, T]) stored(bound []byte, upper bool) []byte {
	switch {
	case bound == nil && upper:
		return s.Space.AppendEnd(nil)
	case bound == nil:
		lo, _ := s.Space.Bounds()
		return lo
	case s.Timed:
		bound = stamp.AppendKey(nil, bound)
	}
	return s.Space.Append(nil, bound)
}

// users returns the user's key of a stored key or bound of the keyspace, or nil if there is
// none. A bound has no timestamp.
func (s *Items[E, T]) users(stored []byte) []byte {
	if n := s.Space.Skip(stored); n <= len(stored) {
		stored = stored[n:]
	}
	if s.Timed {
		return stamp.Beginning(stored)
	}
	return stored
}

// ranges cuts the keys into ranges of the user's keys.
func (s *Items[E, T]) ranges(lower, upper []byte) stditer.Seq2[Range, error] {
	since := base.SeqNum(s.Since)
	if s.Timed && !s.AllVersions && !s.Deletions {
		since = 0 // the cursors read older versions, too
	}
	return func(yield func(Range, error) bool) {
		lo := lower
		for r, err := range s.Snapshot.Ranges(Range{s.stored(lower, false), s.stored(upper, true)}, since) {
			if err != nil {
				yield(Range{}, err)
				return
			}
			hi := s.users(r.Hi)
			if len(hi) == 0 || bytes.Compare(hi, lo) <= 0 || upper != nil && bytes.Compare(hi, upper) >= 0 ||
				s.Space.Number() != numberOf(r.Hi) {
				continue // the last range follows; or two versions of one key
			}
			end := hi
			if mutant.On(mutant.StreamBorderTwice) {
				end = append(bytes.Clone(hi), 0)
			}
			if !yield(Range{lo, end}, nil) {
				return
			}
			lo = hi
		}
		yield(Range{lo, upper}, nil)
	}
}

// numberOf returns the keyspace of a stored key, and a number that none has for other bytes.
func numberOf(stored []byte) uint32 {
	n, err := keyspace.NumberOf(stored)
	if err != nil {
		return 1<<32 - 1
	}
	return n
}

// read reads one range.
func (s *Items[E, T]) read(r Range, b *batcher[T]) error {
	var cover covering
	if s.Deletions {
		c, err := s.Snapshot.Deletions()
		if err != nil {
			return err
		}
		cover.cursor, cover.until = c, s.stored(r.Lo, false)
		if cover.until == nil {
			cover.until = base.FirstKey
		}
	}
	covers := s.Deletions && !cover.cursor.Empty()
	newestOnly := s.Deletions && !s.AllVersions && !s.Timed
	end := s.stored(r.Hi, true)
	it := s.Open(r.Lo, r.Hi)
	var last []byte // no key is empty
	for it.Next() {
		e := it.Item()
		key := e.Key()
		if covers {
			if err := s.passBefore(key, &cover, end, b); err != nil {
				return err
			}
			if e.Version() < uint64(cover.seq) {
				continue
			}
		}
		if newestOnly {
			if bytes.Equal(key, last) {
				continue
			}
			last = append(last[:0], key...)
		}
		if e.Version() <= s.Since || s.Choose != nil && !s.Choose(key) {
			continue
		}
		value := it.Value()
		if err := it.Err(); err != nil {
			return err
		}
		err := b.add(&Item{Key: key, Value: value, Version: e.Version(), Timestamp: e.Timestamp(),
			ExpiresAt: e.ExpiresAt(), UserMeta: e.UserMeta(), Deleted: e.Deleted()})
		if err != nil {
			return err
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if covers {
		return s.passDeletions(&cover, end, end, b)
	}
	return nil
}

// A covering is a walk over the range tombstones of a range.
type covering struct {
	cursor *rangedel.Cursor
	seq    base.SeqNum // of the tombstone up to until, or 0
	until  []byte      // a stored key
}

// passBefore is passDeletions up to the user's key.
func (s *Items[E, T]) passBefore(key []byte, cover *covering, end []byte, b *batcher[T]) error {
	from := s.stored(key, false)
	if s.Timed { // tables end between versions, and cut the deletions there
		from = s.Space.Append(nil, stamp.AppendAfter(nil, key))
	}
	return s.passDeletions(cover, from, end, b)
}

// passDeletions adds the deleted ranges up to the stored key to b, as far as they begin
// before end. After it, cover is at key.
func (s *Items[E, T]) passDeletions(cover *covering, key, end []byte, b *batcher[T]) error {
	for bytes.Compare(cover.until, end) < 0 && bytes.Compare(cover.until, key) <= 0 {
		from := cover.until
		seq, until := cover.cursor.At(from)
		if cover.seq = seq; until == nil || bytes.Compare(until, end) > 0 {
			until = end
		}
		cover.until = bytes.Clone(until)
		if uint64(seq) <= s.Since {
			continue
		}
		item := Item{Key: s.users(from), Version: uint64(seq), Deleted: true, End: []byte{}}
		if numberOf(until) == s.Space.Number() {
			item.End = s.users(until)
		}
		if len(item.End) > 0 && bytes.Equal(item.Key, item.End) {
			continue // between two versions
		}
		if err := b.add(&item); err != nil {
			return err
		}
	}
	return nil
}

// A batch is some items, and the memory of their keys and values.
type batch[T Shape] struct {
	items []T
	buf   []byte
}

// A batcher collects items in batches.
type batcher[T Shape] struct {
	emit  func(*batch[T]) error
	spent *sync.Pool
	batch *batch[T] // nil before the first item
	size  int
	// lendMin is the length in bytes from which a value is lent, not copied.
	lendMin int
}

const (
	// lendMin is the least batcher.lendMin.
	lendMin = 64
	// lendSparseMin is that of a stream that shows few of the keys that it reads. A decoded
	// value that is shorter lies in a chunk with many others, and would keep all of them.
	// From this length on, it has memory of its own.
	lendSparseMin = 16 << 10
	// itemSize is about the memory of an item in bytes, without key and value.
	itemSize = 120
)

// add adds an item, with a key and a value that are only lent.
func (b *batcher[T]) add(i *Item) error {
	if b.batch == nil {
		if b.batch, _ = b.spent.Get().(*batch[T]); b.batch == nil {
			b.batch = &batch[T]{buf: make([]byte, 0, BatchSize)}
		}
	}
	if i.Key = b.copy(i.Key); len(i.Value) >= b.lendMin {
		touch(i.Value)
	} else {
		i.Value = b.copy(i.Value)
	}
	b.batch.items = append(b.batch.items, T(*i))
	if b.size += itemSize + len(i.Key) + len(i.Value); b.size < BatchSize {
		return nil
	}
	return b.flush()
}

// flush emits the batch, unless it is empty.
func (b *batcher[T]) flush() error {
	if b.batch == nil {
		return nil
	}
	full := b.batch
	b.batch, b.size = nil, 0
	return b.emit(full)
}

// touch reads a byte of each page of p, so that the consumer does not wait for the device.
func touch(p []byte) (sum byte) {
	const page = 4 << 10
	for i := 0; i < len(p); i += page {
		sum += p[i]
	}
	return sum
}

// copy copies p into the memory of the batch, if there is room. It keeps nil.
func (b *batcher[T]) copy(p []byte) []byte {
	if p == nil {
		return nil
	}
	buf := b.batch.buf
	if cap(buf)-len(buf) < len(p) {
		return bytes.Clone(p)
	}
	n := len(buf)
	b.batch.buf = append(buf, p...)
	return b.batch.buf[n : n+len(p) : n+len(p)]
}
