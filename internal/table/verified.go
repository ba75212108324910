package table

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// inFile names the table in an error. That nothing is wrong costs nothing.
func (r *Reader) inFile(err error) error {
	if err == nil {
		return nil
	}
	return base.InFile(err, r.name)
}

// entryOf returns the directory's entry of block b.
func (r *Reader) entryOf(b int) blockEntry { return decodeBlockEntry(r.directory[b*blockEntrySize:]) }

// checkEntry reports what makes the directory's entry of block b impossible.
func (r *Reader) checkEntry(b int, e *blockEntry) error {
	src := r.directory[b*blockEntrySize:]
	return e.check(src, r.directoryOff()+int64(b)*blockEntrySize, r.dataEnd)
}

// sum returns number i of the checksums.
func (r *Reader) sum(i int) uint64 { return binary.LittleEndian.Uint64(r.sums[sumSize*i:]) }

func (r *Reader) checkSum(b []byte, off int64, i int, what string) error {
	if got, want := r.sumOf(b, off), r.sum(i); got != want {
		return base.Corrupt(off, what, fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	return nil
}

// view returns the key part of block b, verified.
func (r *Reader) view(b int) (view, error) {
	if !r.keysOK.has(b) {
		if err := r.verifyKeys(b, true); err != nil {
			return view{}, err
		}
	}
	return r.viewVerified(b), nil
}

// viewVerified returns the key part of a block that has been verified.
func (r *Reader) viewVerified(b int) view {
	e := r.entryOf(b)
	return makeView(e, r.data[e.keyOff:e.keyOff+int64(e.keyLen)])
}

// verifyKeys verifies the key part of block b, after fetching it if fetch is
// set. The directory's entry is checked first, as it leads there.
func (r *Reader) verifyKeys(b int, fetch bool) error {
	e := r.entryOf(b)
	if err := r.checkEntry(b, &e); err != nil {
		return r.inFile(err)
	}
	if fetch {
		if err := r.populate(e.keyOff, int64(e.keyLen)); err != nil {
			return err
		}
	}
	if err := r.checkKeyPart(b, e, r.data[e.keyOff:e.keyOff+int64(e.keyLen)]); err != nil {
		return err
	}
	r.keysOK.set(b)
	return nil
}

// checkKeyPart checks part, which was read as the key part of block b.
func (r *Reader) checkKeyPart(b int, e blockEntry, part []byte) error {
	if err := r.checkSum(part, e.keyOff, b, "checksum of a block's keys"); err != nil {
		return r.inFile(err)
	}
	v := makeView(e, part)
	return r.inFile(v.check())
}

// values returns the values of the block that v shows, verified, and decoded
// into the arena if they are compressed.
func (r *Reader) values(b int, v *view, arena *codec.Arena) ([]byte, error) {
	stored, err := r.stored(b, v)
	if v.codec == codec.None || err != nil {
		return stored, err
	}
	return r.decodeInto(v, stored, arena)
}

// stored returns the values of the block that v shows as they are stored,
// verified.
func (r *Reader) stored(b int, v *view) ([]byte, error) {
	if !r.valsOK.has(b) {
		if err := r.verifyValues(b, v, true); err != nil {
			return nil, err
		}
	}
	return r.data[v.valOff : v.valOff+int64(v.valLen)], nil
}

// unread returns as many bytes as the values of the block of v have, for who
// wants to know their lengths alone.
func (r *Reader) unread(v *view) []byte {
	if v.codec == codec.None {
		return r.data[v.valOff : v.valOff+int64(v.valLen)]
	}
	return zeros()[:v.rawLen()]
}

// zeros stands in for the values of any compressed block.
var zeros = sync.OnceValue(func() []byte { return make([]byte, codec.SizeMax) })

func (r *Reader) verifyValues(b int, v *view, fetch bool) error {
	if fetch {
		if err := r.populate(v.valOff, int64(v.valLen)); err != nil {
			return err
		}
	}
	stored := r.data[v.valOff : v.valOff+int64(v.valLen)]
	if err := r.checkSum(stored, v.valOff, int(r.blocks)+b, "checksum of a block's values"); err != nil {
		return r.inFile(err)
	}
	r.valsOK.set(b)
	return nil
}

// verifyPage verifies one page of the hash index, after fetching it if fetch
// is set.
func (r *Reader) verifyPage(p int, fetch bool) error {
	from := p * pageSize
	b := r.index[from:min(from+pageSize, len(r.index))]
	at := r.hashOff() + int64(from)
	if fetch {
		if err := r.populate(at, int64(len(b))); err != nil {
			return err
		}
	}
	if err := r.checkSum(b, at, 2*int(r.blocks)+p, "checksum of the hash index"); err != nil {
		return r.inFile(err)
	}
	r.pagesOK.set(p)
	return nil
}
