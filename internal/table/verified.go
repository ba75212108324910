package table

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// inFile adds the table's name to an error. A nil error costs nothing.
func (r *Reader) inFile(err error) error {
	if err == nil {
		return nil
	}
	return base.InFile(err, r.name)
}

// entryOf returns the directory entry of block b.
func (r *Reader) entryOf(b int) blockEntry { return decodeBlockEntry(r.directory[b*blockEntrySize:]) }

// checkEntry reports why the directory entry of block b is invalid.
func (r *Reader) checkEntry(b int, e *blockEntry) error {
	src := r.directory[b*blockEntrySize:]
	return e.check(src, r.directoryOff()+int64(b)*blockEntrySize, r.dataEnd)
}

// sum returns the i-th checksum.
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
	return makeView(e, r.data[e.keyOff:e.keyOff+int64(e.keyLen)], r.opts.SeqShift)
}

// verifyKeys verifies the key part of block b. If fetch is set, it fetches the part
// first. It checks the directory entry before it follows it.
func (r *Reader) verifyKeys(b int, fetch bool) error {
	e := r.entryOf(b)
	if err := r.checkEntry(b, &e); err != nil {
		return r.inFile(err)
	}
	if fetch {
		if err := r.lookUp(e.keyOff, int64(e.keyLen)); err != nil {
			return err
		}
	}
	drops := r.drops.Load()
	if err := r.checkKeyPart(b, e, r.data[e.keyOff:e.keyOff+int64(e.keyLen)]); err != nil {
		return err
	}
	r.mark(r.keysOK, b, drops)
	return nil
}

// checkKeyPart checks part as the key part of block b.
func (r *Reader) checkKeyPart(b int, e blockEntry, part []byte) error {
	if err := r.checkSum(part, e.keyOff, b, "checksum of a block's keys"); err != nil {
		return r.inFile(err)
	}
	v := makeView(e, part, r.opts.SeqShift)
	return r.inFile(v.check())
}

// values returns the verified values of the block of v. If they are compressed,
// it decodes them into the arena.
func (r *Reader) values(b int, v *view, arena *codec.Arena) ([]byte, error) {
	stored, err := r.stored(b, v)
	if v.codec == codec.None || err != nil {
		return stored, err
	}
	return r.decodeInto(v, stored, arena)
}

// stored returns the verified values of the block of v as stored.
func (r *Reader) stored(b int, v *view) ([]byte, error) {
	if !r.valsOK.has(b) {
		if r.crowded() {
			return r.copiedValues(b, v)
		}
		if err := r.verifyValues(b, v, true); err != nil {
			return nil, err
		}
	}
	return r.data[v.valOff : v.valOff+int64(v.valLen)], nil
}

// unread returns as many bytes as the block of v has values, for a caller that needs
// only their lengths.
func (r *Reader) unread(v *view) []byte {
	if v.codec == codec.None {
		return r.data[v.valOff : v.valOff+int64(v.valLen)]
	}
	return zeros()[:v.rawLen()]
}

// zeros replaces the values of any compressed block.
var zeros = sync.OnceValue(func() []byte { return make([]byte, codec.SizeMax) })

func (r *Reader) verifyValues(b int, v *view, fetch bool) error {
	if fetch {
		if err := r.lookUp(v.valOff, int64(v.valLen)); err != nil {
			return err
		}
	}
	drops := r.drops.Load()
	stored := r.data[v.valOff : v.valOff+int64(v.valLen)]
	if err := r.checkValuePart(b, v, stored); err != nil {
		return err
	}
	r.mark(r.valsOK, b, drops)
	return nil
}

// checkValuePart checks the stored values of block b.
func (r *Reader) checkValuePart(b int, v *view, stored []byte) error {
	return r.inFile(r.checkSum(stored, v.valOff, int(r.blocks)+b, "checksum of a block's values"))
}

// verifyPage verifies one page of the hash index. If fetch is set, it fetches the
// page first.
func (r *Reader) verifyPage(p int, fetch bool) error {
	from := p * pageSize
	b := r.index[from:min(from+pageSize, len(r.index))]
	at := r.hashOff() + int64(from)
	if fetch {
		if err := r.lookUp(at, int64(len(b))); err != nil {
			return err
		}
	}
	drops := r.drops.Load()
	if err := r.checkSum(b, at, 2*int(r.blocks)+p, "checksum of the hash index"); err != nil {
		return r.inFile(err)
	}
	r.mark(r.pagesOK, p, drops)
	return nil
}
