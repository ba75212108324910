package base

// A KeyRef says which key seals a file. ID is a data key of the database. Salt is the
// random salt with which the key of the file is derived from the data key. The zero value
// means that the file is not sealed.
type KeyRef struct {
	ID   uint32
	Salt [KeySaltSize]byte
}

// KeySaltSize is the length of the salt of a file's key in bytes.
const KeySaltSize = 32

// Sealed reports whether the file is sealed.
func (r KeyRef) Sealed() bool { return r.ID != 0 }
