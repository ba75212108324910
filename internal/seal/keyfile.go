package seal

import (
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// KeysName is the name of the file with the data keys. While the database replaces it,
// the new one has the name TempName. That file remains, with any contents, if the name of
// KEYS may not be durable.
const (
	KeysName = "KEYS"
	TempName = KeysName + ".tmp"
)

const (
	keysMagic   = 0x59454b74616f7473 // "stoatKEY"
	keysHeader  = 56                 // bytes before the ID of the master key
	keySize     = 48                 // of a data key, in bytes
	keysSizeMax = 1 << 20            // of the file, in bytes
	idMax       = 255                // length of the ID of a master key, in bytes
	// keysMax is the largest number of data keys. They fit the file.
	keysMax = 20_000
)

// A keyFile is the contents of KEYS. Little-endian:
//
//	offset  size     field
//	0       8        magic: "stoatKEY"
//	8       4        format version
//	12      4        n, the length of the ID of the master key, 1 to 255
//	16      32       salt
//	48      4        count of data keys, at least 1
//	52      4        zero
//	56      n        ID of the master key
//	56+n    48 each  data keys, sealed
//	        16       tag of the data keys and of everything before them
//	        8        checksum of everything before it
//
// A data key:
//
//	offset  size  field
//	0       4     number, ascending
//	4       4     zero
//	8       8     when it was made, milliseconds of Unix time
//	16      32    key
//
// The sealing key is derived from the master key, the salt, and the ID.
type keyFile struct {
	master string
	salt   [base.KeySaltSize]byte
	keys   []dataKey
	// print is the SHA-256 of the master key. It is not stored.
	print [sha256.Size]byte
}

// A dataKey is a key from which keys of files are derived.
type dataKey struct {
	id   uint32
	made int64 // milliseconds of Unix time
	key  [KeySize]byte
}

// wrapping returns the cipher that seals the data keys.
func (f *keyFile) wrapping(master []byte) (cipher.AEAD, error) {
	return derive(master, f.salt[:], "stoat data keys, master key "+f.master)
}

// append appends the file, sealed with the master key.
func (f *keyFile) append(dst, master []byte) ([]byte, error) {
	aead, err := f.wrapping(master)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, keysMagic)
	dst = le.AppendUint32(dst, formatVersion)
	dst = le.AppendUint32(dst, uint32(len(f.master)))
	dst = append(dst, f.salt[:]...)
	dst = le.AppendUint32(dst, uint32(len(f.keys)))
	dst = le.AppendUint32(dst, 0)
	dst = append(dst, f.master...)
	var plain []byte
	for _, k := range f.keys {
		plain = le.AppendUint32(plain, k.id)
		plain = le.AppendUint32(plain, 0)
		plain = le.AppendUint64(plain, uint64(k.made))
		plain = append(plain, k.key[:]...)
	}
	dst = append(dst, aead.Seal(nil, make([]byte, 12), plain, dst)...)
	clear(plain)
	return le.AppendUint64(dst, base.Checksum(dst, 0)), nil
}

// decodeKeyFile decodes the part of b that needs no key, and returns the sealed part
// and what it authenticates.
func decodeKeyFile(b []byte) (f keyFile, sealed, data []byte, err error) {
	le := binary.LittleEndian
	least := keysHeader + 1 + keySize + tagSize + 8
	if len(b) < least || len(b) > keysSizeMax {
		return f, nil, nil, base.Corrupt(0, "length of the key file", len(b), fmt.Sprintf("%d to %d", least, keysSizeMax))
	}
	end := len(b) - 8
	if got, want := base.Checksum(b[:end], 0), le.Uint64(b[end:]); got != want {
		return f, nil, nil, base.Corrupt(0, "checksum of the key file", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	if m := le.Uint64(b); m != keysMagic {
		return f, nil, nil, base.Corrupt(0, "magic of the key file", fmt.Sprintf("%#x", m), fmt.Sprintf("%#x", uint64(keysMagic)))
	}
	if v := le.Uint32(b[8:]); v != formatVersion {
		return f, nil, nil, fmt.Errorf("%w: format version %d of the key file, this version of stoat knows %d", base.ErrVersion, v, formatVersion)
	}
	n, count := le.Uint32(b[12:]), le.Uint32(b[48:])
	want := uint64(keysHeader) + uint64(n) + keySize*uint64(count) + tagSize + 8
	if n < 1 || n > idMax || count < 1 || count > keysMax || le.Uint32(b[52:]) != 0 || want != uint64(len(b)) {
		return f, nil, nil, base.Corrupt(12, "lengths in the key file", fmt.Sprintf("%d, %d keys", n, count), fmt.Sprintf("those of %d bytes", len(b)))
	}
	copy(f.salt[:], b[16:])
	at := keysHeader + int(n)
	f.master = string(b[keysHeader:at])
	f.keys = make([]dataKey, count)
	return f, b[at:end], b[:at], nil
}

// decodeKeys decodes the data keys.
func (f *keyFile) decodeKeys(plain []byte) error {
	le, last := binary.LittleEndian, uint32(0)
	for i := range f.keys {
		b, k := plain[keySize*i:], &f.keys[i]
		k.id, k.made = le.Uint32(b), int64(le.Uint64(b[8:]))
		copy(k.key[:], b[16:])
		if k.id <= last || le.Uint32(b[4:]) != 0 || k.made < 0 {
			return base.Corrupt(-1, "number of a data key", k.id, fmt.Sprintf("more than %d", last))
		}
		last = k.id
	}
	return nil
}
