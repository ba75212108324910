package payload

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// A transaction in the log is a header and its entries, in the order of their
// writing, each key once:
//
//	offset  size  field
//	0       8     sequence number, little-endian
//	8       8     commit time, milliseconds of Unix time, less than 2^63: the
//	              highest time the database had seen, so that no clock turned
//	              back brings an expired key back
//	16      4     number of entries
//	20      ...   entries
//
// An entry:
//
//	size     field
//	1        flags: bits 0-3 kind, bit 4 expiry follows, bit 5 user byte follows
//	[8]      expiry, milliseconds of Unix time
//	[1]      user byte
//	1-3      key length, unsigned varint
//	[1-5]    value length, unsigned varint, for all kinds but KindDelete
//	...      key, value
//
// The value of KindPointer is the pointer, at most PointerSizeMax bytes. The
// value of KindDeleteRange is the exclusive end of the range, a key after the
// entry's own. It is empty if the range extends to the end of all keys.
// KindDeleteRange has no expiry and no user byte. Neither has a partial entry, whose
// value is its steps; see package partial.

// HeaderSize is the size in bytes of a transaction's header.
const HeaderSize = 20

// EntryOverheadMax is the most bytes that an entry takes in addition to its key
// and value.
const EntryOverheadMax = 1 + 8 + 1 + 3 + 5

// PointerSizeMax is the largest value of a KindPointer, in bytes.
const PointerSizeMax = 64

const (
	flagKindMask = 0x0f
	flagExpiry   = 0x10
	flagUser     = 0x20
)

// A Header is the header of a transaction.
type Header struct {
	Seq    base.SeqNum
	TimeMs uint64
	Count  uint32
}

// AppendTo appends the encoding of h to dst.
func (h Header) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Seq))
	dst = binary.LittleEndian.AppendUint64(dst, h.TimeMs)
	return binary.LittleEndian.AppendUint32(dst, h.Count)
}

// AppendEntryHead appends an entry without its value to dst.
func AppendEntryHead(dst, key []byte, valueLen int, m base.Meta) []byte {
	flags := byte(m.Kind)
	if m.ExpiresAt != 0 {
		flags |= flagExpiry
	}
	if m.User != 0 {
		flags |= flagUser
	}
	dst = append(dst, flags)
	if m.ExpiresAt != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, m.ExpiresAt)
	}
	if m.User != 0 {
		dst = append(dst, m.User)
	}
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	if m.Kind != base.KindDelete {
		dst = binary.AppendUvarint(dst, uint64(valueLen))
	}
	return append(dst, key...)
}

// SeqOf returns the sequence number of an encoded transaction.
func SeqOf(payload []byte) (base.SeqNum, error) {
	if len(payload) < HeaderSize {
		return 0, base.Corrupt(0, "transaction size", len(payload), "20 or more")
	}
	return base.SeqNum(binary.LittleEndian.Uint64(payload)), nil
}

// Decode decodes a transaction. It calls begin with the header, then visit for
// each entry. Keys and values are slices of payload. It stops at the first
// error: its own, which is a base.CorruptionError with an offset into payload,
// or one of begin or visit.
func Decode(payload []byte, begin func(Header) error, visit func(key, value []byte, m base.Meta) error) error {
	if len(payload) < HeaderSize {
		return base.Corrupt(0, "transaction size", len(payload), "20 or more")
	}
	h := Header{
		Seq:    base.SeqNum(binary.LittleEndian.Uint64(payload)),
		TimeMs: binary.LittleEndian.Uint64(payload[8:]),
		Count:  binary.LittleEndian.Uint32(payload[16:]),
	}
	if h.Seq == 0 || h.Seq > base.SeqNumMax {
		return base.Corrupt(0, "transaction sequence number", uint64(h.Seq), "1 to 2^48-1")
	}
	if h.TimeMs > base.TimeMsMax {
		return base.Corrupt(8, "transaction time", h.TimeMs, "less than 2^63")
	}
	if err := begin(h); err != nil {
		return err
	}
	d := decoder{rest: payload[HeaderSize:], size: len(payload)}
	for range h.Count {
		key, value, m, err := d.entry()
		if err != nil {
			return err
		}
		if err := visit(key, value, m); err != nil {
			return err
		}
	}
	if len(d.rest) != 0 {
		return base.Corrupt(d.offset(), "bytes after the last entry", len(d.rest), 0)
	}
	return nil
}

type decoder struct {
	rest []byte
	size int
}

func (d *decoder) offset() int64 { return int64(d.size - len(d.rest)) }

func (d *decoder) entry() (key, value []byte, m base.Meta, err error) {
	flags, err := d.take(1, "entry flags")
	if err != nil {
		return nil, nil, m, err
	}
	f := flags[0]
	m.Kind = base.Kind(f & flagKindMask)
	if f&^(flagKindMask|flagExpiry|flagUser) != 0 || !m.Kind.Known() {
		return nil, nil, m, base.Corrupt(d.offset()-1, "entry flags", f, "a known kind")
	}
	if plain := m.Kind == base.KindDeleteRange || m.Kind.Partial(); plain && f != byte(m.Kind) {
		return nil, nil, m, base.Corrupt(d.offset()-1, "flags of a "+m.Kind.String(), f, "neither expiry nor user byte")
	}
	if f&flagExpiry != 0 {
		b, err := d.take(8, "entry expiry")
		if err != nil {
			return nil, nil, m, err
		}
		if m.ExpiresAt = binary.LittleEndian.Uint64(b); m.ExpiresAt == 0 {
			return nil, nil, m, base.Corrupt(d.offset()-8, "entry expiry", 0, "not 0")
		}
	}
	if f&flagUser != 0 {
		b, err := d.take(1, "entry user byte")
		if err != nil {
			return nil, nil, m, err
		}
		if m.User = b[0]; m.User == 0 {
			return nil, nil, m, base.Corrupt(d.offset()-1, "entry user byte", 0, "not 0")
		}
	}
	keyLen, err := d.length("key length", 1, base.MaxKeySize)
	if err != nil {
		return nil, nil, m, err
	}
	valueLen, err := d.valueLength(m.Kind)
	if err != nil {
		return nil, nil, m, err
	}
	if key, err = d.take(keyLen, "key"); err != nil {
		return nil, nil, m, err
	}
	at := d.offset()
	if value, err = d.take(valueLen, "value"); err != nil {
		return nil, nil, m, err
	}
	if m.Kind == base.KindDeleteRange && valueLen > 0 && bytes.Compare(key, value) >= 0 {
		return nil, nil, m, base.Corrupt(at, "end of a range deletion", fmt.Sprintf("%.80q", value), fmt.Sprintf("more than %.80q", key))
	}
	return key, value, m, nil
}

// valueLength reads the length of the value of an entry of kind k.
func (d *decoder) valueLength(k base.Kind) (uint64, error) {
	switch k {
	case base.KindSet:
		return d.length("value length", 0, base.MaxValueSize)
	case base.KindPointer:
		return d.length("pointer length", 1, PointerSizeMax)
	case base.KindDeleteRange:
		return d.length("length of the end of a range deletion", 0, base.MaxKeySize)
	case base.KindMerge, base.KindRenew:
		return d.length("length of the steps of a partial entry", 1, base.MaxValueSize)
	case base.KindStampDelete:
		return d.length("length of a deletion at a timestamp", 0, 0)
	}
	return 0, nil
}

// length reads a varint in its shortest form, from least to most.
func (d *decoder) length(what string, least, most uint64) (uint64, error) {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || (size > 1 && d.rest[size-1] == 0) {
		return 0, base.Corrupt(d.offset(), what, "a bad varint", "a varint")
	}
	if n < least || n > most {
		return 0, base.Corrupt(d.offset(), what, n, most)
	}
	d.rest = d.rest[size:]
	return n, nil
}

func (d *decoder) take(n uint64, what string) ([]byte, error) {
	if n > uint64(len(d.rest)) {
		return nil, base.Corrupt(d.offset(), what+" beyond the end", n, len(d.rest))
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b, nil
}
