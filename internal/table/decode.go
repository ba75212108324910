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
	from, to := v.valueSpan(i)
	value := arena.Alloc(to - from)
	err := r.decodePart(b, v, value, from)
	if arena.Filled(len(value)); err != nil {
		return nil, err
	}
	return value, nil
}

// decodePart fills part from the decoded values of block b, beginning at offset from. The
// caller keeps the part for long, and must not keep the whole block with it.
func (r *Reader) decodePart(b int, v *view, part []byte, from int) error {
	if r.caches(v) && r.opts.Cache.Read(part, r.opts.CacheID, uint64(b), from) {
		return nil
	}
	stored, err := r.stored(b, v)
	if err != nil {
		return err
	}
	if len(part) == int(v.rawLen()) {
		if err = r.decode(v, part, stored); err == nil {
			r.opts.Cache.Put(r.opts.CacheID, uint64(b), part)
		}
		return err
	}
	var scratch codec.Arena
	values, err := r.decodeAndKeep(b, v, stored, &scratch)
	if err == nil {
		copy(part, values[from:])
	}
	scratch.Reset()
	return err
}

// cached returns a part of the decoded values of block b if the cache has them. They were
// verified before, so the stored ones are not needed.
func (r *Reader) cached(b int, v *view, from, to int, arena *codec.Arena) ([]byte, bool) {
	if !r.caches(v) {
		return nil, false
	}
	values := arena.Alloc(to - from)
	ok := r.opts.Cache.Read(values, r.opts.CacheID, uint64(b), from)
	arena.Filled(to - from)
	return values, ok
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
