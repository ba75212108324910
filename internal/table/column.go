package table

import "encoding/binary"

// A width codes the number of bytes of each number in a column. The codes 0 to 4 stand for
// 0, 1, 2, 4 or 8 bytes. A column of zeros takes no bytes.
type width uint8

const (
	width0 width = iota
	width1
	width2
	width4
	width8
	widths
)

// bytes returns the size of one number in bytes.
func (w width) bytes() int { return 1 << w >> 1 }

// widthFor returns the narrowest width that holds most.
func widthFor(most uint64) width {
	switch {
	case most == 0:
		return width0
	case most < 1<<8:
		return width1
	case most < 1<<16:
		return width2
	case most < 1<<32:
		return width4
	}
	return width8
}

// load returns number i of the column that starts at off in b.
func (w width) load(b []byte, off, i int) uint64 {
	switch w {
	case width1:
		return uint64(b[off+i])
	case width2:
		return uint64(binary.LittleEndian.Uint16(b[off+2*i:]))
	case width4:
		return uint64(binary.LittleEndian.Uint32(b[off+4*i:]))
	case width8:
		return binary.LittleEndian.Uint64(b[off+8*i:])
	}
	return 0
}

// loadAll loads numbers of the column that starts at off in b, from number i on.
func (w width) loadAll(dst []uint64, b []byte, off, i int) {
	b = b[off+i*w.bytes():]
	switch w {
	case width0:
		clear(dst)
	case width1:
		b = b[:len(dst)]
		for i := range dst {
			dst[i] = uint64(b[i])
		}
	case width2:
		for i := range dst {
			dst[i] = uint64(binary.LittleEndian.Uint16(b[2*i:]))
		}
	default:
		for i := range dst {
			dst[i] = w.load(b, 0, i)
		}
	}
}

// append appends n as a number of width w. It must fit.
func (w width) append(dst []byte, n uint64) []byte {
	switch w {
	case width1:
		return append(dst, byte(n))
	case width2:
		return binary.LittleEndian.AppendUint16(dst, uint16(n))
	case width4:
		return binary.LittleEndian.AppendUint32(dst, uint32(n))
	case width8:
		return binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}
