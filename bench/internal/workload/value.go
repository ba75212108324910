package workload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// ErrWrong says that a store gave a wrong answer.
var ErrWrong = errors.New("wrong answer")

// Values makes and checks the values of one population.
//
// A value's first 8 bytes hold its version, masked by a hash of its key. Its
// last 8 bytes are a hash of the first 8. Both ends together give the version
// and prove that key and value belong together. The bytes between them follow
// from the last 8. No two values share a run of bytes that a compressor could
// find.
type Values struct {
	Size int

	// JSON makes text that compresses to about a third, with the ends in
	// hexadecimal.
	JSON bool
}

// ValueSizeMin is the size in bytes of the smallest value, which has both ends
// and nothing between them.
const ValueSizeMin = 16

// poolWords is the number of random words that fill values, each masked by a
// hash of the value.
const poolWords = 512

var pool = makePool()

func makePool() *[poolWords]uint64 {
	var p [poolWords]uint64
	r := newRandom(1)
	for i := range p {
		p[i] = r.next()
	}
	return &p
}

// ends returns the first and the last word of a value.
func (v Values) ends(key, version uint64) (first, last uint64) {
	first = mix(key+uint64(v.Size)*gamma) ^ version
	return first, mix(first ^ gamma)
}

// Fill writes the value of a key and version over dst. The length of dst is the
// size of the values.
func (v Values) Fill(dst []byte, key, version uint64) {
	if v.JSON {
		v.fillJSON(dst, key, version)
		return
	}
	first, last := v.ends(key, version)
	binary.LittleEndian.PutUint64(dst, first)
	n := len(dst)
	mask := bits.RotateLeft64(last, 32)
	for i := 8; i < n-8; i += 8 {
		if i%(poolWords*8) == 0 {
			mask = mix(mask)
		}
		binary.LittleEndian.PutUint64(dst[i:], pool[i/8%poolWords]^mask)
	}
	binary.LittleEndian.PutUint64(dst[n-8:], last)
}

// Check reads both ends of the value of key and returns its version.
func (v Values) Check(value []byte, key uint64) (version uint64, err error) {
	if len(value) != v.Size {
		return 0, fmt.Errorf("%w: the value of key %d has %d bytes, want %d", ErrWrong, key, len(value), v.Size)
	}
	var first, last uint64
	if v.JSON {
		first, last = jsonEnds(value)
	} else {
		first, last = binary.LittleEndian.Uint64(value), binary.LittleEndian.Uint64(value[len(value)-8:])
	}
	if last != mix(first^gamma) {
		return 0, fmt.Errorf("%w: the value of key %d begins %016x and ends %016x, which do not belong together",
			ErrWrong, key, first, last)
	}
	return first ^ mix(key+uint64(v.Size)*gamma), nil
}

// CheckWhole reads every byte of the value of key and returns its version.
// Scratch has the size of the values.
func (v Values) CheckWhole(value []byte, key uint64, scratch []byte) (version uint64, err error) {
	version, err = v.Check(value, key)
	if err != nil {
		return 0, err
	}
	if !v.JSON {
		return version, v.checkMiddle(value, key)
	}
	v.Fill(scratch, key, version)
	if string(value) != string(scratch) {
		return 0, fmt.Errorf("%w: the value of key %d, version %d, differs from what was written", ErrWrong, key, version)
	}
	return version, nil
}

// checkMiddle compares all words between the ends, without creating the expected
// value. Every entry of a scan with whole values calls it, so it compares eight words at
// a time.
func (v Values) checkMiddle(value []byte, key uint64) error {
	mask := bits.RotateLeft64(binary.LittleEndian.Uint64(value[len(value)-8:]), 32)
	middle := value[8 : len(value)-8]
	from := 1 // the word of the pool that fills the next word of the value
	var difference uint64
	for len(middle) >= 8 {
		n := min(len(middle)/8, poolWords-from)
		difference |= unlike(middle[:8*n], pool[from:from+n], mask)
		middle, from, mask = middle[8*n:], 0, mix(mask)
	}
	if difference != 0 {
		return fmt.Errorf("%w: the value of key %d differs between its ends from what was written", ErrWrong, key)
	}
	return nil
}

// unlike returns 0 if the bytes of value are those of words, each masked.
func unlike(value []byte, words []uint64, mask uint64) (difference uint64) {
	le := binary.LittleEndian
	var other uint64
	for len(value) >= 64 && len(words) >= 8 {
		b, w := (*[64]byte)(value), (*[8]uint64)(words)
		difference |= le.Uint64(b[0:]) ^ w[0] ^ mask
		other |= le.Uint64(b[8:]) ^ w[1] ^ mask
		difference |= le.Uint64(b[16:]) ^ w[2] ^ mask
		other |= le.Uint64(b[24:]) ^ w[3] ^ mask
		difference |= le.Uint64(b[32:]) ^ w[4] ^ mask
		other |= le.Uint64(b[40:]) ^ w[5] ^ mask
		difference |= le.Uint64(b[48:]) ^ w[6] ^ mask
		other |= le.Uint64(b[56:]) ^ w[7] ^ mask
		value, words = value[64:], words[8:]
	}
	for i, w := range words {
		difference |= le.Uint64(value[8*i:]) ^ w ^ mask
	}
	return difference | other
}

const (
	jsonHead = `{"id":"`
	jsonTail = `"}`
	hexSize  = 16
)

// jsonWords are the parts of the text.
var jsonWords = [...]string{
	`","name":"`, `","city":"`, `","state":"active`, `","tags":"red,green,blue`, `","count":"`,
	"river ", "stone ", "market ", "window ", "letter ", "garden ", "silver ", "winter ", "morning ", "northern ",
	"the ", "of ", "and ", "with ", "under ", "between ",
}

// fillJSON writes a JSON record: the first word in hexadecimal, text that
// follows from the last word, and the last word in hexadecimal.
func (v Values) fillJSON(dst []byte, key, version uint64) {
	first, last := v.ends(key, version)
	out := append(dst[:0], jsonHead...)
	out = appendHex(out, first)
	r := random{state: last}
	room := len(dst) - len(jsonTail) - hexSize - len(`","sum":"`)
	for len(out) < room {
		x := r.next()
		word := jsonWords[x%uint64(len(jsonWords))]
		if x>>32%4 == 0 {
			word = strconv.Itoa(int(x >> 40 % 10000))
		}
		if len(word) > room-len(out) {
			word = " "
		}
		out = append(out, word...)
	}
	out = append(out, `","sum":"`...)
	out = appendHex(out, last)
	_ = append(out, jsonTail...)
}

func appendHex(dst []byte, x uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[x>>shift&15])
	}
	return dst
}

// jsonEnds reads the first and the last word of a JSON record. Other input
// yields words that do not belong together.
func jsonEnds(value []byte) (first, last uint64) {
	if len(value) < len(jsonHead)+2*hexSize+len(jsonTail) {
		return 0, 0
	}
	first = parseHex(value[len(jsonHead) : len(jsonHead)+hexSize])
	last = parseHex(value[len(value)-len(jsonTail)-hexSize : len(value)-len(jsonTail)])
	return first, last
}

func parseHex(text []byte) uint64 {
	x, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return 0
	}
	return x
}
