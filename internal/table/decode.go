package table

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/codec"
)

// A reader decodes the compressed values of a block into its own arena. The block
// cache saves repeated decoding for point reads and seeks. An iteration decodes a
// block once for all its entries and bypasses the cache, so as not to evict what
// other reads need.

// decodedValue returns value i of the compressed block b. v is its view.
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

// seekValues returns the values of the compressed block b, to an iterator that was
// just positioned there. v is the block's view.
func (r *Reader) seekValues(b int, v *view, stored []byte, arena *codec.Arena) ([]byte, error) {
	if r.caches(v) {
		values := arena.Alloc(int(v.rawLen()))
		cached := r.opts.Cache.Read(values, r.opts.CacheID, uint64(b), 0)
		if arena.Filled(len(values)); cached {
			return values, nil
		}
	}
	return r.decodeAndKeep(b, v, stored, arena)
}

// caches reports whether the cache may hold the block of v.
func (r *Reader) caches(v *view) bool { return r.opts.Cache != nil && v.rawLen() <= cache.BlockMax }

// decodeAndKeep decodes the values of block b and puts them into the cache.
func (r *Reader) decodeAndKeep(b int, v *view, stored []byte, arena *codec.Arena) ([]byte, error) {
	values, err := r.decodeInto(v, stored, arena)
	if err == nil {
		r.opts.Cache.Put(r.opts.CacheID, uint64(b), values)
	}
	return values, err
}

// decodeInto decodes the values of the compressed block of v into the arena.
func (r *Reader) decodeInto(v *view, stored []byte, arena *codec.Arena) ([]byte, error) {
	values := arena.Alloc(int(v.rawLen()))
	err := r.decode(v, values, stored)
	if arena.Filled(len(values)); err != nil {
		return nil, err
	}
	return values, nil
}

// decode decodes stored into values, whose length is v.rawLen().
func (r *Reader) decode(v *view, values, stored []byte) error {
	err := v.codec.Decode(values, stored)
	if c, ok := err.(*base.CorruptionError); ok {
		c.Offset = v.valOff
	}
	return r.inFile(err)
}
