package base

import (
	"bytes"
	"cmp"
	"testing"
)

// prefixKeys are empty, shorter and longer than 8 and 16 bytes, equal, and prefixes of one
// another.
var prefixKeys = []string{
	"", "\x00", "\x00\x00", "a", "ab", "abcdefg", "abcdefgh", "abcdefgi", "abcdefg\x00", "abcdefghi",
	"abcdefghijklmnop", "abcdefghijklmnoq", "abcdefghijklmnopqrs", "abcdefghijklmnopqrt",
	"abcdefghijklmnopqrs", "bbcdefghijklmnopqrs", "\xff", "\xff\xff\xff\xff\xff\xff\xff\xff", "\x7f\xff",
}

func TestCommonLen_IsThatOfTheBytesOneByOne(t *testing.T) {
	t.Parallel()
	for _, a := range prefixKeys {
		for _, b := range prefixKeys {
			want := 0
			for want < min(len(a), len(b)) && a[want] == b[want] {
				want++
			}
			if got := CommonLen([]byte(a), []byte(b)); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestHead_OrdersLikeTheKeys(t *testing.T) {
	t.Parallel()
	if got := Head([]byte("abcdefghi")); got != 0x6162636465666768 {
		t.Errorf("the head of a long key is %#x", got)
	}
	if got := Head([]byte("ab")); got != 0x6162000000000000 {
		t.Errorf("the head of a short key is %#x", got)
	}
	for _, a := range prefixKeys {
		for _, b := range prefixKeys {
			got := cmp.Compare(Head([]byte(a)), Head([]byte(b)))
			if want := bytes.Compare([]byte(a), []byte(b)); got != 0 && got != want {
				t.Errorf("the heads of %q and %q compare as %d, the keys as %d", a, b, got, want)
			}
		}
	}
}
