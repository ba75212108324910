package table

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/codec"
)

// Blocks whose values are compressed are decoded into the arena of whoever
// reads them. The cache saves the decoding where point reads and seeks come
// again. A walk decodes a block for all of its entries, and leaves the cache
// alone: it would push out what others need.

// decodedValue returns value i of block b, which v shows and which is
// compressed.
func (r *Reader) decodedValue(b, i int, v *view, arena *codec.Arena) ([]byte, error) {
	stored, err := r.stored(b, v)
	if err != nil {
		return nil, err
	}
	from, to := v.valueSpan(i)
	if r.caches(v) {
		value := arena.Alloc(to - from)
		cached := r.opts.Cache.Read(value, r.opts.CacheID, uint64(b), from)
		if arena.Filled(to - from); cached {
			return value, nil
		}
	}
	values, err := r.decodeAndKeep(b, v, stored, arena)
	if err != nil {
		return nil, err
	}
	return values[from:to:to], nil
}

// soughtValues returns the values of block b, which v shows and which is
// compressed, to an iterator that was just positioned there.
func (r *Reader) soughtValues(b int, v *view, stored []byte, arena *codec.Arena) ([]byte, error) {
	if r.caches(v) {
		values := arena.Alloc(int(v.rawLen()))
		cached := r.opts.Cache.Read(values, r.opts.CacheID, uint64(b), 0)
		if arena.Filled(len(values)); cached {
			return values, nil
		}
	}
	return r.decodeAndKeep(b, v, stored, arena)
}

// caches reports whether the block that v shows may be in the cache.
func (r *Reader) caches(v *view) bool { return r.opts.Cache != nil && v.rawLen() <= cache.BlockMax }

// decodeAndKeep decodes the values of block b, and offers them to the cache.
func (r *Reader) decodeAndKeep(b int, v *view, stored []byte, arena *codec.Arena) ([]byte, error) {
	values, err := r.decodeInto(v, stored, arena)
	if err == nil {
		r.opts.Cache.Put(r.opts.CacheID, uint64(b), values)
	}
	return values, err
}

// decodeInto decodes the values of the compressed block that v shows.
func (r *Reader) decodeInto(v *view, stored []byte, arena *codec.Arena) ([]byte, error) {
	values := arena.Alloc(int(v.rawLen()))
	err := r.decode(v, values, stored)
	if arena.Filled(len(values)); err != nil {
		return nil, err
	}
	return values, nil
}

// decode fills values, which are as many bytes as the view says.
func (r *Reader) decode(v *view, values, stored []byte) error {
	err := v.codec.Decode(values, stored)
	if c, ok := err.(*base.CorruptionError); ok {
		c.Offset = v.valOff
	}
	return r.inFile(err)
}
