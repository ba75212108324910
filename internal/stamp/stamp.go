package stamp

import (
	"bytes"
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// Size is the length of an encoded timestamp in bytes.
	Size = 8
	// Overhead is by how many bytes an encoded key is longer than a user's key without
	// zero bytes. Each zero byte adds another byte.
	Overhead = endSize + Size

	// ExpiryMark is added to the expiry time of a version. The engine then never
	// takes the version for expired, and so never drops it. An expired version goes on
	// to hide older ones, which have keys of their own.
	ExpiryMark = 1 << 63

	endSize = 2 // length of the end of a user's key in bytes

	zero      = 0x00 // the byte that is escaped
	endMark   = 0x01 // follows zero at the end of a user's key
	afterMark = 0x02 // follows zero in bounds after all versions of a key
	zeroMark  = 0xff // follows a zero byte of a user's key
)

// Append appends the encoding of key at timestamp at to dst.
func Append(dst, key []byte, at uint64) []byte {
	return AppendTimestamp(AppendKey(dst, key), at)
}

// AppendKey appends what all versions of key begin with to dst. It is before all of
// them, and after all versions of smaller keys.
func AppendKey(dst, key []byte) []byte { return append(escape(dst, key), zero, endMark) }

// AppendAfter appends to dst what is after all versions of key, and before all
// versions of greater keys.
func AppendAfter(dst, key []byte) []byte { return append(escape(dst, key), zero, afterMark) }

// AppendTimestamp completes the result of AppendKey with a timestamp.
func AppendTimestamp(dst []byte, at uint64) []byte {
	if mutant.On(mutant.StampUpright) {
		at = ^at
	}
	return binary.BigEndian.AppendUint64(dst, ^at)
}

// escape appends key to dst, and a zeroMark after each zero byte.
func escape(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, zero)
		if i < 0 {
			return append(dst, key...)
		}
		dst = append(append(dst, key[:i+1]...), zeroMark)
		key = key[i+1:]
	}
}

// EncodedSize returns the length of the encoding of key in bytes.
func EncodedSize(key []byte) int { return len(key) + bytes.Count(key, []byte{zero}) + Overhead }

// Of returns the timestamp of an encoded key. It does not check the rest of the key.
// ok is false if the key is too short.
func Of(encoded []byte) (at uint64, ok bool) {
	n := len(encoded) - Size
	if n < 0 {
		return 0, false
	}
	at = ^binary.BigEndian.Uint64(encoded[n:])
	if mutant.On(mutant.StampUpright) {
		at = ^at
	}
	return at, true
}

// Ended reports whether the end of a user's key precedes the timestamp of an encoded key. It
// does not check the rest of the key.
func Ended(encoded []byte) bool {
	n := len(encoded) - Overhead
	return n >= 0 && encoded[n] == zero && encoded[n+1] == endMark
}

// KeyOf returns what all versions of the user's key begin with, as AppendKey makes it.
// The result is a slice of encoded, which is an encoded key.
func KeyOf(encoded []byte) []byte { return encoded[:max(0, len(encoded)-Size)] }

// Beginning returns what the beginning of an encoded key has of the user's key, in memory
// of its own.
func Beginning(encoded []byte) (key []byte) {
	for i := 0; i < len(encoded); i++ {
		if encoded[i] == zero {
			if i+1 == len(encoded) || encoded[i+1] != zeroMark {
				break
			}
			key = append(key, zero)
			i++
			continue
		}
		key = append(key, encoded[i])
	}
	return key
}

// Decode splits an encoded key. The user's key is a slice of encoded if it has no zero
// byte. Otherwise Decode writes it to buf, from the start, and returns a slice of that.
// ok is false if encoded is no encoded key.
func Decode(encoded, buf []byte) (key []byte, at uint64, ok bool) {
	if !Ended(encoded) {
		return nil, 0, false
	}
	n := len(encoded) - Overhead
	at, _ = Of(encoded)
	escaped := encoded[:n:n]
	if bytes.IndexByte(escaped, zero) < 0 {
		return escaped, at, true
	}
	key = buf[:0]
	for {
		i := bytes.IndexByte(escaped, zero)
		if i < 0 {
			return append(key, escaped...), at, true
		}
		if i+1 == len(escaped) || escaped[i+1] != zeroMark {
			return nil, 0, false
		}
		key, escaped = append(key, escaped[:i+1]...), escaped[i+2:]
	}
}
