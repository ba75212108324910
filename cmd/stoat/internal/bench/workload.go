package bench

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// A workload computes the keys and values.
type workload struct {
	prefix    string // of every key
	valueSize int    // bytes
	space     uint64 // the numbers of keys are below space
	seed      uint64
	text      bool // values compress to about two fifths
}

// digits is the number of digits of a key's number, enough for the most keys that
// Config allows.
const digits = 10

// newWorkload returns a workload for loading keys keys, which are 63.2 % of its
// space.
func newWorkload(keys, valueSize int, seed uint64) workload {
	return workload{
		prefix:    fmt.Sprintf("vsz=%05d-k=", valueSize),
		valueSize: valueSize,
		space:     uint64(float64(keys)/0.632) + 1,
		seed:      seed,
	}
}

// keySize is the length of every key.
func (w *workload) keySize() int { return len(w.prefix) + digits }

// putKey writes the key of a number into key, which newKey has returned.
func (w *workload) putKey(key []byte, number uint64) {
	tail := key[len(w.prefix):]
	for i := digits - 2; i >= 0; i -= 2 {
		pair := number % 100 * 2
		number /= 100
		tail[i], tail[i+1] = digitPairs[pair], digitPairs[pair+1]
	}
}

// newKey returns a key without its number, for putKey.
func (w *workload) newKey() []byte {
	return append([]byte(w.prefix), make([]byte, digits)...)
}

// number is the inverse of putKey.
func (w *workload) number(key []byte) (uint64, error) {
	if len(key) != w.keySize() || string(key[:len(w.prefix)]) != w.prefix {
		return 0, wrongf("the key %q was never written", key)
	}
	n, err := strconv.ParseUint(string(key[len(w.prefix):]), 10, 64)
	if err != nil || n >= w.space {
		return 0, wrongf("the key %q was never written", key)
	}
	return n, nil
}

// digitPairs is "00" to "99".
var digitPairs = func() (s [200]byte) {
	for i := range 100 {
		s[2*i], s[2*i+1] = byte('0'+i/10), byte('0'+i%10)
	}
	return s
}()

// permute is a bijection of the numbers below space, in an order that looks
// random. It is a Feistel network over the next power of four, applied until the
// result is below space.
func (w *workload) permute(i uint64) uint64 {
	half := (bits.Len64(w.space-1) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		left, right := i>>half, i&mask
		for round := range uint64(4) {
			left, right = right, left^(mix(w.seed+round<<32+right)&mask)
		}
		if i = left<<half | right; i < w.space {
			return i
		}
	}
}

// mix is a permutation of 64-bit words in which each bit of the result
// depends on every bit of x (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// golden is 2^64 divided by the golden ratio. Its multiples are evenly spread.
const golden = 0x9e3779b97f4a7c15

// origin returns the start of the stream of a value.
func (w *workload) origin(number uint64, version uint8) uint64 {
	return mix(w.seed ^ mix(number*256+uint64(version)+golden))
}

// word returns the i-th word of the stream from origin. All words of text but the
// first come from phrases, so that each value has its own beginning.
func (w *workload) word(origin uint64, i int) uint64 {
	if !w.text || i == 0 {
		return mix(origin + uint64(i+1)*golden)
	}
	phrase := mix(origin+uint64(i/phraseWords)*golden) % phrases
	return mix(phrase*phraseWords+uint64(i%phraseWords))&0x0f0f0f0f0f0f0f0f + 0x6161616161616161
}

const (
	phrases     = 16 // different phrases of text
	phraseWords = 3  // words of 8 letters per phrase
)

// value appends the value of a key at a version to dst.
func (w *workload) value(dst []byte, number uint64, version uint8) []byte {
	origin := w.origin(number, version)
	n := len(dst)
	dst = slices.Grow(dst, w.valueSize+8)
	for i := 0; i*8 < w.valueSize; i++ {
		dst = binary.LittleEndian.AppendUint64(dst, w.word(origin, i))
	}
	return dst[:n+w.valueSize]
}

// ends returns the sum of the first and the last 8 bytes of a value. A shorter
// value is padded with zeros.
func ends(value []byte) uint64 {
	if len(value) < 8 {
		var b [8]byte
		copy(b[:], value)
		return 2 * binary.LittleEndian.Uint64(b[:])
	}
	return binary.LittleEndian.Uint64(value) + binary.LittleEndian.Uint64(value[len(value)-8:])
}

// keyEnd returns the last 8 bytes of a key as a number.
func keyEnd(key []byte) uint64 { return binary.LittleEndian.Uint64(key[len(key)-8:]) }

// wantEnds computes the ends of the correct value without the rest of it.
func (w *workload) wantEnds(number uint64, version uint8) uint64 {
	origin := w.origin(number, version)
	first := w.word(origin, 0)
	if w.valueSize < 8 {
		return 2 * (first & (1<<(8*w.valueSize) - 1))
	}
	at, shift := (w.valueSize-8)/8, w.valueSize%8*8
	last := w.word(origin, at)
	if shift != 0 {
		last = last>>shift | w.word(origin, at+1)<<(64-shift)
	}
	return first + last
}

// checkEnds compares the length and the ends of a value.
func (w *workload) checkEnds(value []byte, number uint64, version uint8) error {
	if len(value) == w.valueSize && ends(value) == w.wantEnds(number, version) {
		return nil
	}
	return w.checkAll(value, number, version)
}

// checkAll compares every byte of a value.
func (w *workload) checkAll(value []byte, number uint64, version uint8) error {
	if len(value) != w.valueSize {
		return wrongf("key number %d: the value has %d bytes, want %d", number, len(value), w.valueSize)
	}
	origin := w.origin(number, version)
	for i := 0; i*8 < len(value); i++ {
		rest := value[i*8:]
		if len(rest) >= 8 {
			if binary.LittleEndian.Uint64(rest) == w.word(origin, i) {
				continue
			}
		} else if got, want := tail(rest), tail(binary.LittleEndian.AppendUint64(nil, w.word(origin, i))[:len(rest)]); got == want {
			continue
		}
		return wrongf("key number %d: the value differs from version %d within bytes %d to %d",
			number, version, i*8, min(i*8+8, len(value)))
	}
	return nil
}

// tail reads fewer than 8 bytes as a number.
func tail(b []byte) uint64 {
	var full [8]byte
	copy(full[:], b)
	return binary.LittleEndian.Uint64(full[:])
}
