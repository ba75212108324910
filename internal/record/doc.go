// Package record frames byte strings in a file, so that a reader gets back what
// was written, or an error. The write-ahead log and the manifest share it.
//
// # The file
//
// A file of records has a fixed length, which its header states. So a reader
// detects a file that was cut short. The header is stored twice, in two pages,
// so that one damaged sector cannot hide a live file; see Header. Frames follow
// from offset Start, one after the other.
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
// The salt rejects frames from earlier uses of the file. The offset rejects
// frames that were moved, the chain rejects frames that were lost or replaced,
// and the kind rejects zeros. The tag rejects most other bytes with one
// comparison.
//
// # Torn tail or damage
//
// The durable mark distinguishes a torn tail from damage. Suppose that a frame
// does not verify, but a later frame of the file does, with a durable mark
// beyond the broken frame. Then the broken frame was once on the device, and the
// file is corrupt. Without such a frame, a crash tore the broken frame before
// its write was acknowledged, and the file ends there. In one use of a file, the
// writer writes only one frame at each offset. So a frame that verifies and does
// not continue the chain is always corruption.
//
// # Records
//
// A record is one Whole frame. A record larger than a frame is a First frame,
// any number of Middle frames, and a Last frame. A record exists if its last
// frame verifies.
package record
