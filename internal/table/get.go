package table

import (
	"fmt"
	"runtime"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// Get returns the newest version of key whose sequence number is at most at. hash
// is base.Hash of the key with the seed of the database. The value is not a copy:
// it is valid until the table is closed. A compressed value is decoded into the
// arena, which may be nil.
func (r *Reader) Get(key []byte, hash uint64, at base.SeqNum, arena *codec.Arena) (value []byte, meta base.Meta, seq base.SeqNum, ok bool, err error) {
	x := &r.shape
	slot, tag := x.home(hash)
	shift := x.pageShift()
	for left := x.slots; left > 0; {
		page := slot >> shift
		if !r.pagesOK.has(int(page)) {
			if err = r.verifyPage(int(page), true); err != nil {
				return
			}
		}
		end := min((page+1)<<shift, x.slots)
		for ; slot < end && left > 0; slot++ {
			s := x.load(r.index, slot)
			if s == 0 {
				return
			}
			if s>>(x.posBits&63) == tag {
				var done bool
				value, meta, seq, ok, done, err = r.try(s&(1<<(x.posBits&63)-1), key, at, arena)
				if done || err != nil {
					return
				}
			}
			left--
		}
		if slot == x.slots {
			slot = 0
		}
	}
	return
}

// place decodes the position in a slot into a block and an entry.
func (r *Reader) place(pos uint64) (block, entry int, err error) {
	pos--
	b := pos >> r.hash.entryBits
	if b >= uint64(r.blocks) {
		return 0, 0, r.inFile(base.Corrupt(r.hashOff(), "block in the hash index", b, fmt.Sprintf("below %d", r.blocks)))
	}
	return int(b), int(pos & (1<<r.hash.entryBits - 1)), nil
}

// try checks the entry that a slot with a matching tag points to. done says that
// the entry has the key.
func (r *Reader) try(pos uint64, key []byte, at base.SeqNum, arena *codec.Arena) (value []byte, meta base.Meta, seq base.SeqNum, ok, done bool, err error) {
	// False tag matches touch the gauge even of a table that never has the
	// sought key.
	r.gauge.Touch()
	b, i, err := r.place(pos)
	if err != nil {
		return
	}
	if !r.keysOK.has(b) {
		if err = r.verifyKeys(b, true); err != nil {
			return
		}
	}
	var v view
	r.viewInto(b, &v)
	if i >= v.count {
		err = r.inFile(base.Corrupt(r.hashOff(), "entry in the hash index", i, fmt.Sprintf("below %d", v.count)))
		return
	}
	runtime.KeepAlive(r.warmValue(b, i, &v))
	if !v.is(key, i) {
		return
	}
	value, meta, seq, ok, err = r.read(b, i, &v, key, at, arena)
	return value, meta, seq, ok, true, err
}

// viewInto makes v the view of block b, which must have been verified.
func (r *Reader) viewInto(b int, v *view) {
	v.decode(r.directory[b*blockEntrySize:])
	v.shift = r.opts.SeqShift
	v.part = r.data[v.keyOff : v.keyOff+int64(v.keyLen)]
	v.lay()
}

// read returns the newest version of key up to at. The newest of all is entry i of block
// b, of which v is the view.
func (r *Reader) read(b, i int, v *view, key []byte, at base.SeqNum, arena *codec.Arena) (value []byte, meta base.Meta, seq base.SeqNum, ok bool, err error) {
	if seq = v.seq(i); seq > at {
		if b, i, ok, err = r.older(b, i, v, key, at); !ok || err != nil {
			return
		}
		seq = v.seq(i)
	}
	if v.codec != codec.None {
		value, err = r.decodedValue(b, i, v, arena)
		return value, v.meta(i), seq, err == nil, err
	}
	values, err := r.stored(b, v)
	if err != nil {
		return nil, meta, 0, false, err
	}
	from, to := v.valueSpan(i)
	return values[from:to:to], v.meta(i), seq, true, nil
}

// warmValue starts to load the value of entry i of block b, if the directory alone
// tells where it is. That load overlaps with the load of the key. The tag
// makes the key the right one in all but one of hundreds of cases. The result
// has no meaning.
func (r *Reader) warmValue(b, i int, v *view) byte {
	if v.vEnds != width0 || v.valueLen == 0 || v.codec != codec.None || !r.valsOK.has(b) {
		return 0
	}
	n := int64(v.valueLen)
	value := r.data[v.valOff+int64(i)*n:][:n]
	return value[0] + value[len(value)-1]
}

// older finds the newest version of key up to at. Entry i of block b is a newer
// one. It leaves v at the block of the result.
func (r *Reader) older(b, i int, v *view, key []byte, at base.SeqNum) (int, int, bool, error) {
	// It is usually one of the next few.
	for j := i + 1; j < min(i+5, v.count); j++ {
		if !v.same(i, j) {
			return 0, 0, false, nil
		}
		if v.seq(j) <= at {
			return b, j, true, nil
		}
	}
	b, i, err := r.seek(key, at)
	if err != nil || b == int(r.blocks) {
		return 0, 0, false, err
	}
	if *v, err = r.view(b); err != nil {
		return 0, 0, false, err
	}
	return b, i, v.is(key, i), nil
}
