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
