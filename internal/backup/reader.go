package backup

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/check"
	"github.com/stoatdb/stoat/internal/keyspace"
)

// A Reader reads a backup. It takes memory for one frame, and for the header.
type Reader struct {
	Header Header

	frames *frameReader
	items  itemReader
	spaces keyspace.Walk
	space  uint32      // the keyspace of the last key
	known  bool        // whether space is one of the header
	timed  bool        // whether it has timestamps
	since  base.SeqNum // Header.since of space
	empty  bool        // Header.empty
	buffer [64]byte    // for a user's key

	large     uint64 // bytes of the last item's value that are still to read
	entries   uint64
	unchanged uint64
	ended     bool
}

// NewReader reads the header of a backup.
func NewReader(from io.Reader) (*Reader, error) {
	if from == nil {
		return nil, base.Invalid("the reader of a backup is nil")
	}
	frames, err := newFrameReader(from, TypeBackup)
	if err != nil {
		return nil, err
	}
	r := &Reader{frames: frames}
	var header []byte
	for total := 1; len(header) < total; {
		kind, p, err := frames.next()
		switch {
		case err != nil:
			return nil, err
		case kind != frameHeader || len(p) < 4 && header == nil:
			return nil, r.frames.unexpected(kind)
		}
		if header == nil {
			if total = int(binary.LittleEndian.Uint32(p)); total < headerFixed || total > headerMax {
				return nil, base.Corrupt(frames.offset, "length of the header", total, fmt.Sprintf("%d to %d", headerFixed, headerMax))
			}
		}
		if header = append(header, p...); len(p) == 0 || len(header) > total {
			return nil, r.frames.unexpected(kind)
		}
	}
	if r.Header, err = decodeHeader(header); err != nil {
		return nil, err
	}
	r.items = itemReader{since: r.Header.Since, until: r.Header.State.LastSeq, sinceOf: r.beginSpace}
	r.empty = r.Header.empty()
	return r, nil
}

// beginSpace notes the keyspace of a key, and returns the version that its backup continues.
func (r *Reader) beginSpace(key []byte) base.SeqNum {
	if n := r.spaces.Number(key); n != r.space || !r.known {
		_, r.known = r.Header.State.Keyspace(n)
		r.timed = r.Header.State.Timed(n)
		r.space, r.since = n, r.Header.since(n)
	}
	return r.since
}

// Next returns the next item, which is valid until the call after, or io.EOF once the whole
// backup is known to be right. It passes over what is left of a large value.
func (r *Reader) Next() (Item, error) {
	for r.large > 0 {
		if _, err := r.Chunk(); err != nil {
			return Item{}, err
		}
	}
	if r.ended {
		return Item{}, io.EOF
	}
	for {
		it, ok, err := r.items.next()
		if err != nil {
			return it, r.frames.at(err)
		}
		if ok {
			return it, r.count(&it)
		}
		kind, p, err := r.frames.next()
		switch {
		case err != nil:
			return it, err
		case kind == frameEnd:
			return it, r.end(p)
		case kind != frameItems || len(p) == 0 || r.Header.State.LastSeq == 0 || r.empty:
			return it, r.frames.unexpected(kind)
		}
		r.items.frame(p)
	}
}

// count counts an item, and checks that its keyspace is in the header and can have it.
func (r *Reader) count(it *Item) error {
	if it.Key[0] == keyspace.Escape {
		if _, err := keyspace.NumberOf(it.Key); err != nil {
			return r.frames.at(bad("key", err))
		}
	}
	if !r.known {
		return base.Corrupt(r.frames.offset, "keyspace of a key", r.space, "one of the header")
	}
	if err := r.fits(it); err != nil {
		return r.frames.at(err)
	}
	if r.large = it.Large; it.Unchanged {
		r.unchanged++
	} else {
		r.entries++
	}
	return nil
}

// fits checks that an item can be in its keyspace. An unchanged item has only a key.
func (r *Reader) fits(it *Item) error {
	m := it.Meta
	if it.Unchanged {
		m.Kind = base.KindSet
	}
	switch {
	case r.timed:
		return check.StampedEntry(it.Key, m, r.buffer[:])
	case m.Kind == base.KindStampDelete:
		return bad("kind of an item in a keyspace without timestamps", m.Kind)
	case m.ExpiresAt > base.TimeMsMax:
		return bad("expiry time", m.ExpiresAt)
	}
	return nil
}

// Chunk returns the next part of the large value of the last item, or nothing at its end.
func (r *Reader) Chunk() ([]byte, error) { return r.frames.chunk(&r.large) }

// end checks the last frame. It returns io.EOF if all is right.
func (r *Reader) end(p []byte) error {
	if string(p) != string(appendEnd(nil, r.entries, r.unchanged)) {
		return base.Corrupt(r.frames.offset, "counts at the end", fmt.Sprintf("%d and %d", r.entries, r.unchanged), "those of the backup")
	}
	if err := r.frames.atEnd(); err != nil {
		return err
	}
	r.ended = true
	return io.EOF
}

// Info describes the backup. The counts are those of the items read so far.
func (r *Reader) Info() Info {
	info := r.Header.Info()
	info.Entries, info.Unchanged = r.entries, r.unchanged
	return info
}
