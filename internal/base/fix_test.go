package base

import "testing"

func TestFixBit_CorrectsOneWrongBit(t *testing.T) {
	t.Parallel()
	b := []byte("some bytes")
	want := string(b)
	b[3] ^= 8
	if !FixBit(b, func() bool { return string(b) == want }) || string(b) != want {
		t.Errorf("one wrong bit: %q, want %q", b, want)
	}
	b[3] ^= 9
	spoilt := string(b)
	if FixBit(b, func() bool { return string(b) == want }) || string(b) != spoilt {
		t.Errorf("two wrong bits: %q, want %q", b, spoilt)
	}
	if FixBit(make([]byte, fixMax+1), func() bool { return true }) {
		t.Error("a long part is searched")
	}
}
