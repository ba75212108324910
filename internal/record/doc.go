// Package record frames byte strings in a file so that what is read back is
// what was written, or an error: the commit log and the manifest share it.
//
// A frame is a header and a payload, aligned to 8 bytes:
//
//	offset  size  field
//	0       4     magic, by kind; never zero
//	4       4     payload length
//	8       8     checksum of bytes 16.. of the header and of the payload,
//	              seeded by the file's salt and the frame's offset
//	16      8     chain: the checksum of the frame before it, or the file's
//	              own starting value
//	24      8     durable: every byte of the file below this offset was
//	              known to be on the device when this frame was written
//	32      ...   payload, then zeros to the next multiple of 8
//
// The salt rejects frames of the file's earlier life, the chain rejects
// frames that were lost, repeated or moved, the magic rejects zeros, and the
// durable mark tells a torn tail from rot: when a frame does not verify, and
// any later frame in the file verifies with a durable mark beyond it, then
// what is broken was once safely on the device, and the file is corrupt.
// Otherwise the crash tore it, nobody was promised it, and it is cut.
package record
