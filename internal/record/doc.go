// Package record frames byte strings in a file so that what is read back is
// what was written, or an error. The commit log and the manifest share it.
//
// # The file
//
// A file of records has a fixed length, which its header states, so that a
// file cut short is never taken for one that was written less. The header
// stands twice, in two pages, so that one damaged sector cannot hide a live
// file; see Header. Frames follow from offset Start, one after the other.
//
// # The frame
//
// A frame is a header and a payload, aligned to 8 bytes:
//
//	offset  size  field
//	0       8     checksum of the bytes from 8 to the end of the frame,
//	              padding included, seeded by the file's salt and the
//	              frame's offset
//	8       1     kind, never zero; the highest bit is the early mark
//	9       3     tag: three bytes of the file's salt
//	12      4     payload length, at most MaxPayload
//	16      8     chain: the checksum of the frame before it, or the file's
//	              salt for the first one
//	24      8     durable: every byte of the file below this offset was
//	              known to be on the device when this frame was made
//	32      ...   payload, then zeros to the next multiple of 8
//
// All integers are little-endian.
//
// The salt rejects frames of the file's earlier life, the offset rejects
// frames that were moved, the chain rejects frames that were lost or
// replaced, the kind rejects zeros, and the tag makes rejection of anything
// else a matter of one comparison.
//
// # Torn or rotten
//
// The durable mark tells a torn tail from rot. When a frame does not verify,
// and any later frame of the file verifies with a durable mark beyond it,
// then what is broken was once safely on the device, and the file is corrupt.
// Otherwise the crash tore it, nobody was promised it, and the file ends
// there. A frame is never written twice at one offset in one life of a file,
// so a frame that verifies and does not continue the chain is corrupt in any
// case.
//
// # Records
//
// A record is one Whole frame or, when it is larger than a frame may be, a
// First, any number of Middle, and a Last frame. It exists when its last
// frame verifies.
package record
