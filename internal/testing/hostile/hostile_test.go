package hostile

import (
	"encoding/binary"
	"testing"
)

var kept []byte

func TestLengths_FindsADecoderThatTrustsALength(t *testing.T) {
	good := []byte{1, 1, 1, 1, 4, 0, 0, 0}
	trusting := func(b []byte) { kept = make([]byte, min(binary.LittleEndian.Uint32(b[4:]), 64<<20)) }
	if Lengths(good, 4, []uint32{16, 1 << 30}, 1<<20, nil, trusting) == nil {
		t.Error("a decoder that trusts a length is not found")
	}
	careful := func(b []byte) { kept = make([]byte, min(binary.LittleEndian.Uint32(b[4:]), 8)) }
	if err := Lengths(good, 4, []uint32{16, 1 << 30}, 1<<20, nil, careful); err != nil {
		t.Errorf("a decoder that trusts no length: %v", err)
	}
	leave := func([]byte) bool { return false }
	if err := Lengths(good, 4, []uint32{1 << 30}, 1<<20, leave, trusting); err != nil {
		t.Errorf("skipped bytes count: %v", err)
	}
}
