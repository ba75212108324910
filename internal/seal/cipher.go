package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// KeySize is the length of master keys and data keys in bytes.
	KeySize = 32
	// tagSize is the length of the tag of a page or a section in bytes.
	tagSize = 16
)

// A nonce is unique among all that one key seals.
type nonce [12]byte

// footerNonce returns the nonce of a footer after that many others. It is that of no page.
func footerNonce(before uint32) (n nonce) {
	binary.BigEndian.PutUint64(n[:], math.MaxUint64)
	binary.BigEndian.PutUint32(n[8:], before)
	return n
}

// pageNonce returns the nonce of a page that was sealed that many times before.
func pageNonce(page int64, before uint32) (n nonce) {
	if !mutant.On(mutant.PagePosition) {
		binary.BigEndian.PutUint64(n[:], uint64(page))
	}
	if !mutant.On(mutant.PageNonce) {
		binary.BigEndian.PutUint32(n[8:], before)
	}
	return n
}

// derive returns the cipher whose key is derived from secret, salt and label.
func derive(secret, salt []byte, label string) (cipher.AEAD, error) {
	if mutant.On(mutant.SameFileKey) {
		salt, label = nil, ""
	}
	key, err := hkdf.Key(sha256.New, secret, salt, label, KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	if report := watching.Load(); report != nil {
		return &watched{AEAD: aead, key: sha256.Sum256(key), report: *report}, nil
	}
	return aead, nil
}

// A Use is one sealing. Two uses with the same key and nonce must have the same text.
type Use struct {
	Key   [sha256.Size]byte // a hash of the key
	Nonce [12]byte
	Text  [sha256.Size]byte // a hash of the plain text and of what was authenticated
}

// watching is what Watch set.
var watching atomic.Pointer[func(Use)]

// Watch makes all ciphers that are made from now on report what they seal, until the
// caller calls stop. It is for tests of the whole process.
func Watch(report func(Use)) (stop func()) {
	watching.Store(&report)
	return func() { watching.Store(nil) }
}

// watched is a cipher that reports what it seals.
type watched struct {
	cipher.AEAD
	key    [sha256.Size]byte
	report func(Use)
}

func (w *watched) Seal(dst, nonce, plain, data []byte) []byte {
	u := Use{Key: w.key}
	copy(u.Nonce[:], nonce)
	h := sha256.New()
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(plain)))
	h.Write(n[:])
	h.Write(plain)
	h.Write(data)
	h.Sum(u.Text[:0])
	w.report(u)
	return w.AEAD.Seal(dst, nonce, plain, data)
}
