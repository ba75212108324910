package base

import (
	"bytes"
	"testing"
)

func TestBound_TheEndOfKeysIsStoredAsNothing(t *testing.T) {
	t.Parallel()
	last := bytes.Repeat([]byte{0xff}, MaxKeySize)
	if bytes.Compare(last, EndOfKeys) >= 0 || cap(EndOfKeys) != len(EndOfKeys) {
		t.Error("the end of keys does not come after the last key, or can be appended to")
	}
	for _, bound := range [][]byte{{0}, []byte("key"), last} {
		stored, clone := StoredBound(bound), CloneBound(bound)
		if !bytes.Equal(stored, bound) || !bytes.Equal(LoadedBound(stored), bound) || !bytes.Equal(clone, bound) || &clone[0] == &bound[0] {
			t.Errorf("%.10q is stored as %.10q, its copy is %.10q", bound, stored, clone)
		}
	}
	clone := bytes.Clone(EndOfKeys)
	for _, end := range [][]byte{EndOfKeys, clone, LoadedBound(nil), LoadedBound([]byte{}), CloneBound(clone)} {
		if len(StoredBound(end)) != 0 {
			t.Errorf("%d bytes are stored", len(StoredBound(end)))
		}
		if c := CloneBound(end); &c[0] != &EndOfKeys[0] {
			t.Error("the end of keys was copied")
		}
	}
	if s := BoundString(EndOfKeys); s != "the end of all keys" {
		t.Error(s)
	}
	if s := BoundString(last); len(s) > 400 {
		t.Errorf("%d bytes show a key", len(s))
	}
}

func TestPrefixEnd_IsTheFirstKeyAfterThePrefix(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"a": "b", "ab": "ac", "a\xff": "b", "a\xff\xff": "b", "\x00": "\x01", "\xfe\xff": "\xff",
		"\xff": "", "\xff\xff": "", "": "",
	} {
		if end := PrefixEnd([]byte(prefix)); string(end) != want || (end == nil) != (want == "") {
			t.Errorf("the end of %q is %q, want %q", prefix, end, want)
		}
	}
}

func TestWithPrefix_LeavesTheKeysOfTheBoundsThatStartWithThePrefix(t *testing.T) {
	t.Parallel()
	var keys [][]byte
	for _, b := range []byte{0, 'a', 0xff} {
		keys = append(keys, []byte{b}, []byte{b, 0}, []byte{b, 'a'}, []byte{b, 0xff})
	}
	bounds := append([][]byte{nil, {}}, keys...)
	within := func(key, lo, hi []byte) bool {
		return bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
	}
	buf := make([]byte, 0, 2)
	for _, lower := range bounds {
		for _, upper := range bounds {
			for _, prefix := range bounds {
				before := string(prefix)
				lo, hi := WithPrefix(lower, upper, prefix, buf)
				if len(prefix) == 0 && ((lo == nil) != (lower == nil) || (hi == nil) != (upper == nil)) {
					t.Fatalf("without a prefix, %q and %q become %q and %q", lower, upper, lo, hi)
				}
				for _, key := range keys {
					want := within(key, lower, upper) && bytes.HasPrefix(key, prefix)
					if within(key, lo, hi) != want || string(prefix) != before {
						t.Fatalf("%q, %q and the prefix %q become %q and %q", lower, upper, before, lo, hi)
					}
				}
			}
		}
	}
	_, hi := WithPrefix(nil, nil, []byte("a"), buf)
	_, other := WithPrefix(nil, nil, []byte("a"), nil)
	if string(hi) != "b" || string(other) != "b" || &hi[0] != &buf[:1][0] {
		t.Errorf("the end of a prefix is %q, and %q without a buffer, or not in the buffer", hi, other)
	}
}
