package backup

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// An Item is a version of a key, or the name of one that an earlier backup has.
type Item struct {
	base.Entry
	// Unchanged says that this version and the older ones of the key are as in the backup
	// before. Only Key and Seq are set.
	Unchanged bool
	// Large is the length of a value that follows in chunks, or 0.
	Large uint64
}

// An item in a frame, integers as uvarints of the least length:
//
//	size     field
//	1        bits 0-3: kind, 0 for an unchanged version; bits 4-7: flags below
//	uvarint  unless the key is that of the item before in the frame: the number of bytes
//	         that both keys share, all of them
//	uvarint  unless the same: the number n of other bytes
//	n        unless the same: these bytes
//	uvarint  the version of the backup less that of the item
//	uvarint  if it expires: the expiry time
//	1        if it has one: the user's byte
//	uvarint  if it has a value: the length of the value
//	...      the value, unless it follows in chunks
const (
	itemKind    = 0x0f
	itemExpires = 0x10
	itemUser    = 0x20
	itemLarge   = 0x40
	itemSame    = 0x80
)

const (
	// LargeMin is the length in bytes from which a value follows in chunks, and the length
	// of all chunks but the last.
	LargeMin = 512 << 10
	// itemsSize is the size in bytes at which a frame of items is full.
	itemsSize = 256 << 10
)

// valueKind reports whether items of kind k have a value.
func valueKind(k base.Kind) bool { return k == base.KindSet || k.Partial() }

// storedKind reports whether a backup has entries of kind k.
func storedKind(k base.Kind) bool { return valueKind(k) || k == base.KindStampDelete }

// items encodes the items of a frame.
type items struct {
	until base.SeqNum
	buf   []byte
	last  []byte // the key of the item before, if n > 0
	n     int
}

func (f *items) reset() { f.buf, f.last, f.n = f.buf[:0], f.last[:0], 0 }

// add appends an item.
func (f *items) add(it *Item) {
	first := byte(it.Meta.Kind)
	if it.Unchanged {
		first = 0
	}
	same := f.n > 0 && bytes.Equal(f.last, it.Key)
	if it.Meta.ExpiresAt != 0 {
		first |= itemExpires
	}
	if it.Meta.User != 0 {
		first |= itemUser
	}
	if it.Large != 0 {
		first |= itemLarge
	}
	if same {
		first |= itemSame
	}
	b := append(f.buf, first)
	if !same {
		shared := base.CommonLen(f.last, it.Key)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(it.Key)-shared))
		b = append(b, it.Key[shared:]...)
		f.last = append(f.last[:0], it.Key...)
	}
	b = binary.AppendUvarint(b, uint64(f.until-it.Seq))
	if it.Meta.ExpiresAt != 0 {
		b = binary.AppendUvarint(b, it.Meta.ExpiresAt)
	}
	if it.Meta.User != 0 {
		b = append(b, it.Meta.User)
	}
	switch {
	case it.Unchanged || !valueKind(it.Meta.Kind):
	case it.Large != 0:
		b = binary.AppendUvarint(b, it.Large)
	default:
		b = binary.AppendUvarint(b, uint64(len(it.Value)))
		b = append(b, it.Value...)
	}
	f.buf = b
	f.n++
}

// An itemReader decodes the items of one frame after the other.
type itemReader struct {
	since, until base.SeqNum
	// sinceOf, if not nil, is since for a stored key.
	sinceOf func(key []byte) base.SeqNum
	rest    []byte
	first   bool   // of the frame
	key     []byte // of the last item
	seq     base.SeqNum
	begun   bool
	ended   bool // the last item was the last of its key
}

// frame begins a frame. The payload is borrowed until the next.
func (d *itemReader) frame(payload []byte) { d.rest, d.first = payload, true }

// next decodes the next item of the frame, whose key is valid until the call after. It
// reports false at the end of the frame.
func (d *itemReader) next() (it Item, ok bool, err error) {
	if len(d.rest) == 0 {
		return it, false, nil
	}
	flags := d.rest[0]
	d.rest = d.rest[1:]
	it.Meta.Kind = base.Kind(flags & itemKind)
	if it.Unchanged = it.Meta.Kind == 0; it.Unchanged && flags&(itemExpires|itemUser|itemLarge) != 0 ||
		!it.Unchanged && !storedKind(it.Meta.Kind) || flags&itemLarge != 0 && it.Meta.Kind != base.KindSet ||
		it.Meta.Kind.Partial() && flags&(itemExpires|itemUser) != 0 {
		return it, false, bad("kind of an item", flags)
	}
	sameKey, err := d.nextKey(flags&itemSame != 0)
	if err != nil {
		return it, false, err
	}
	it.Key = d.key
	back, err := d.number("version", uint64(d.until)-1)
	if err != nil {
		return it, false, err
	}
	it.Seq = d.until - base.SeqNum(back)
	if err := d.order(&it, sameKey); err != nil {
		return it, false, err
	}
	if flags&itemExpires != 0 {
		if it.Meta.ExpiresAt, err = d.number("expiry time", 1<<64-1); err != nil || it.Meta.ExpiresAt == 0 {
			return it, false, orBad(err, "expiry time", 0)
		}
	}
	if flags&itemUser != 0 {
		if len(d.rest) == 0 || d.rest[0] == 0 {
			return it, false, bad("user's byte", "none")
		}
		it.Meta.User, d.rest = d.rest[0], d.rest[1:]
	}
	return it, true, d.value(&it, flags&itemLarge != 0)
}

// value decodes the value of an item.
func (d *itemReader) value(it *Item, large bool) (err error) {
	switch {
	case it.Unchanged || !valueKind(it.Meta.Kind):
		return nil
	case large:
		if it.Large, err = d.number("length of a large value", base.MaxValueSize); err == nil && (it.Large < LargeMin || len(d.rest) > 0) {
			err = bad("length of a large value", it.Large)
		}
		return err
	}
	n, err := d.number("length of a value", uint64(len(d.rest)))
	if err != nil || n > uint64(len(d.rest)) {
		return orBad(err, "length of a value", n)
	}
	it.Value, d.rest = d.rest[:n:n], d.rest[n:]
	return nil
}

// nextKey decodes the key of the next item, and reports whether it is that of the last one.
func (d *itemReader) nextKey(same bool) (sameKey bool, err error) {
	if same {
		if d.first {
			return true, bad("key of the first item", "none")
		}
		return true, nil
	}
	last := d.key
	if d.first {
		last = nil
	}
	shared, err := d.number("length of a key", uint64(len(last)))
	if err != nil {
		return false, err
	}
	n, err := d.number("length of a key", base.MaxKeySize-shared)
	if err != nil || n > uint64(len(d.rest)) || n+shared == 0 {
		return false, orBad(err, "length of a key", n)
	}
	rest := d.rest[:n]
	d.rest = d.rest[n:]
	if base.CommonLen(last[shared:], rest) > 0 {
		return false, bad("shared part of a key", shared)
	}
	order := 1
	if d.begun {
		// The keys agree up to shared within a frame.
		order = bytes.Compare(rest, d.key[shared:])
		if d.first {
			order = bytes.Compare(rest, d.key)
		}
	}
	if order < 0 || order == 0 && !d.first {
		return false, bad("order of keys", fmt.Sprintf("%.80q", rest))
	}
	d.key = append(d.key[:shared], rest...)
	return order == 0, nil
}

// order checks the version of an item against that of the item before.
func (d *itemReader) order(it *Item, sameKey bool) error {
	if !sameKey && d.sinceOf != nil {
		d.since = d.sinceOf(it.Key)
	}
	switch {
	case sameKey && (it.Seq >= d.seq || d.ended):
		return bad("order of versions", uint64(it.Seq))
	case it.Unchanged && it.Seq > d.since,
		it.Seq <= d.since && !it.Unchanged && valueKind(it.Meta.Kind):
		return bad("version of an unchanged item", uint64(it.Seq))
	}
	d.first, d.begun, d.seq, d.ended = false, true, it.Seq, it.Seq <= d.since
	return nil
}

// number decodes a uvarint of the least length, which is at most most.
func (d *itemReader) number(what string, most uint64) (uint64, error) {
	x, n := binary.Uvarint(d.rest)
	if n <= 0 || x > most || n > 1 && d.rest[n-1] == 0 {
		return 0, base.Corrupt(-1, what, x, fmt.Sprintf("at most %d", most))
	}
	d.rest = d.rest[n:]
	return x, nil
}

func bad(what string, got any) error { return base.Corrupt(-1, what, got, "a valid one") }

func orBad(err error, what string, got any) error {
	if err != nil {
		return err
	}
	return bad(what, got)
}
