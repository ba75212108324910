package seal

import "testing"

func TestFix_CorrectsOneWrongBit(t *testing.T) {
	t.Parallel()
	b := []byte("some bytes")
	want := string(b)
	b[3] ^= 8
	if !fixBit(b, func() bool { return string(b) == want }) || string(b) != want {
		t.Errorf("one wrong bit: %q, want %q", b, want)
	}
	b[3] ^= 9
	spoilt := string(b)
	if fixBit(b, func() bool { return string(b) == want }) || string(b) != spoilt {
		t.Errorf("two wrong bits: %q, want %q", b, spoilt)
	}
	if fixBit(make([]byte, fixBudget+1), func() bool { return true }) {
		t.Error("a long part is searched")
	}
}
