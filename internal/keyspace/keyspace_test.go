package keyspace

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/script"
)

func TestSpace_FollowsTheScripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/*", func(*testing.T) script.Handler { return handle })
}

func handle(t *testing.T, c *script.Command) string {
	var out bytes.Buffer
	for _, line := range c.Lines() {
		fields := bytes.Fields([]byte(line))
		switch c.Name {
		case "encode":
			s := New(number(t, string(fields[0])))
			key := unquote(t, fields[1])
			stored := s.Append(nil, key)
			fmt.Fprintf(&out, "%s %q: %x\n", fields[0], key, stored)
		case "bounds":
			s := New(number(t, string(fields[0])))
			lo, hi := s.Bounds()
			fmt.Fprintf(&out, "%s: [%x, %x)\n", fields[0], lo, hi)
		case "decode":
			stored := unquote(t, fields[0])
			n, key, err := Decode(stored)
			if err != nil {
				fmt.Fprintf(&out, "%x: %v\n", stored, err)
			} else {
				fmt.Fprintf(&out, "%x: %d %q\n", stored, n, key)
			}
		default:
			t.Fatalf("%s: unknown command %q", c.Pos, c.Name)
		}
	}
	return out.String()
}

func number(t *testing.T, s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func unquote(t *testing.T, s []byte) []byte {
	key, err := strconv.Unquote(string(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return []byte(key)
}

func FuzzDecode(f *testing.F) {
	for _, stored := range []string{"", "a", "\xff", "\xff\x00", "\xff\x00a", "\xff\x00\xff", "\xff\x01a", "\xff\xf0\x00",
		"\xff\xf1\x00\x00\x00\xf0k", "\xff\xf1\x00\x00\x00\xf1k", "\xff\xf1\x00\x00\x00\xf1", "\xff\xf2aaaaaa"} {
		f.Add([]byte(stored))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		n, key, err := Decode(stored)
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) {
				t.Errorf("%x: %v, want ErrCorrupt", stored, err)
			}
			return
		}
		s := New(n)
		if again := s.Append(nil, key); !bytes.Equal(again, stored) {
			t.Errorf("%x decodes to %d %q, which encodes to %x", stored, n, key, again)
		}
		var w Walk
		if got := w.Number(stored); got != n {
			t.Errorf("%x: a walk says keyspace %d, want %d", stored, got, n)
		}
	})
}

func FuzzSpace(f *testing.F) {
	f.Add(uint32(0), []byte("a"), uint32(1), []byte("\xff"))
	f.Add(uint32(240), []byte("\xff\xff"), uint32(241), []byte("\x00"))
	f.Add(uint32(1<<32-1), []byte("\xff\xff"), uint32(255), []byte(""))
	f.Fuzz(func(t *testing.T, a uint32, key []byte, b uint32, other []byte) {
		checkPair(t, a, key, b, other)
	})
}

// checkPair checks that two stored keys decode to what was encoded, have the order
// of their keys within a keyspace, and that each lies within the bounds of its own
// keyspace only.
func checkPair(t *testing.T, a uint32, key []byte, b uint32, other []byte) {
	s, o := New(a), New(b)
	if s.Number() != a || len(key) == 0 || len(other) == 0 {
		if s.Number() != a {
			t.Errorf("New(%d) has number %d", a, s.Number())
		}
		return
	}
	x, y := s.Append(nil, key), o.Append(nil, other)
	if n, k, err := Decode(x); err != nil || n != a || !bytes.Equal(k, key) || s.Skip(x) != len(x)-len(key) {
		t.Errorf("keyspace %d, key %x: %x decodes to %d %x, %v", a, key, x, n, k, err)
	}
	if len(x)-len(key) > longSize || s.Plain(key) != (len(x) == len(key)) {
		t.Errorf("keyspace %d, key %x: the stored key is %x", a, key, x)
	}
	if a == b && bytes.Compare(key, other) != bytes.Compare(x, y) {
		t.Errorf("keyspace %d: %x and %x have another order than %x and %x", a, key, other, x, y)
	}
	lo, hi := s.Bounds()
	if in := bytes.Compare(lo, y) <= 0 && bytes.Compare(y, hi) < 0; in != (a == b) {
		t.Errorf("keyspace %d has the bounds [%x, %x), keyspace %d has the key %x", a, lo, hi, b, y)
	}
	var w Walk
	for _, stored := range [][]byte{x, y, x} {
		want, _, _ := Decode(stored)
		if got := w.Number(stored); got != want {
			t.Errorf("a walk over %x and %x says that %x is of keyspace %d", x, y, stored, got)
		}
	}
}

func TestSpace_SeparatesAllPairs(t *testing.T) {
	t.Parallel()
	numbers := []uint32{0, 1, 2, 239, 240, 241, 242, 255, 256, 0xffff, 0xff00, 0xffffff, 0xffffffff, 0xfffffffe}
	keys := []string{"\x00", "\x00\x00", "a", "\xfe\xff", "\xff", "\xff\x00", "\xff\x00\xff", "\xff\x01", "\xff\xf1", "\xff\xff\xff\xff\xff\xff\xff"}
	for _, a := range numbers {
		for _, b := range numbers {
			for _, key := range keys {
				for _, other := range keys {
					checkPair(t, a, []byte(key), b, []byte(other))
				}
			}
		}
	}
}

func TestSpace_AllocatesNothing(t *testing.T) {
	key, buf := []byte("some key"), make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		s := New(300)
		buf = s.Append(buf[:0], key)
		var w Walk
		if w.Number(buf) != 300 || s.Skip(buf) != 6 {
			t.Error("another keyspace")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
