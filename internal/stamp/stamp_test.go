package stamp

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/script"
)

func TestStamp_FollowsTheScripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/*", func(*testing.T) script.Handler { return handle })
}

func handle(t *testing.T, c *script.Command) string {
	var out bytes.Buffer
	var sorted [][]byte
	for _, line := range c.Lines() {
		fields := bytes.Fields([]byte(line))
		key := unquote(t, fields[0])
		switch c.Name {
		case "encode":
			sorted = append(sorted, Append(nil, key, number(t, fields[1])))
		case "bounds":
			fmt.Fprintf(&out, "%q: [%x, %x)\n", key, AppendKey(nil, key), AppendAfter(nil, key))
		case "decode":
			user, at, ok := Decode(key, nil)
			fmt.Fprintf(&out, "%x: %q at %d, %v\n", key, user, at, ok)
		default:
			t.Fatalf("%s: unknown command %q", c.Pos, c.Name)
		}
	}
	slices.SortFunc(sorted, bytes.Compare)
	for _, encoded := range sorted {
		user, at, _ := Decode(encoded, nil)
		fmt.Fprintf(&out, "%x %q at %d\n", encoded, user, at)
	}
	return out.String()
}

func number(t *testing.T, s []byte) uint64 {
	n, err := strconv.ParseUint(string(s), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func unquote(t *testing.T, s []byte) []byte {
	key, err := strconv.Unquote(string(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return []byte(key)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("\x00\x0112345678"))
	f.Add([]byte("a\x00\x0112345678"))
	f.Add([]byte("a\x00\xff\x00\x0112345678"))
	f.Add([]byte("a\x00\x02\x00\x0112345678"))
	f.Add([]byte("a\x00\x00\x0112345678"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		key, at, ok := Decode(encoded, nil)
		if !ok {
			return
		}
		if again := Append(nil, key, at); !bytes.Equal(again, encoded) {
			t.Errorf("%x decodes to %q at %d, which encodes to %x", encoded, key, at, again)
		}
		if got, ok := Of(encoded); got != at || !ok {
			t.Errorf("%x is at %d, want %d", encoded, got, at)
		}
	})
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte("a"), uint64(9), []byte("a\x00"), uint64(7))
	f.Add([]byte("a\x00\x01"), uint64(1<<63), []byte("a"), uint64(math.MaxUint64))
	f.Add([]byte("\x00"), uint64(0), []byte("\x00\xff"), uint64(1))
	f.Fuzz(func(t *testing.T, a []byte, at uint64, b []byte, bt uint64) { checkPair(t, a, at, b, bt) })
}

// checkPair checks that two versions decode to what was encoded, that they have the
// order of their keys and then of their timestamps, the latest first, and that each
// lies within the bounds of its own key only.
func checkPair(t *testing.T, a []byte, at uint64, b []byte, bt uint64) {
	t.Helper()
	x, y := Append(nil, a, at), Append(nil, b, bt)
	key, got, ok := Decode(x, nil)
	if !ok || got != at || !bytes.Equal(key, a) || len(x) != EncodedSize(a) {
		t.Errorf("%q at %d: %x decodes to %q at %d, %v", a, at, x, key, got, ok)
	}
	want := bytes.Compare(a, b)
	if want == 0 {
		want = cmp.Compare(bt, at)
	}
	if got := bytes.Compare(x, y); got != want {
		t.Errorf("%q at %d compares with %q at %d as %d, want %d", a, at, b, bt, got, want)
	}
	lo, hi := AppendKey(nil, a), AppendAfter(nil, a)
	if in := bytes.Compare(lo, y) <= 0 && bytes.Compare(y, hi) < 0; in != bytes.Equal(a, b) {
		t.Errorf("%q has the bounds [%x, %x), and %q at %d is %x", a, lo, hi, b, bt, y)
	}
	if same := bytes.Equal(KeyOf(x), KeyOf(y)); same != bytes.Equal(a, b) {
		t.Errorf("%x and %x are versions of one key: %v", x, y, same)
	}
	if !bytes.Equal(KeyOf(x), lo) {
		t.Errorf("KeyOf(%x) = %x, want %x", x, KeyOf(x), lo)
	}
	// A bound lies between the keys before it and the keys from it on.
	if got, want := bytes.Compare(x, AppendKey(nil, b)) < 0, bytes.Compare(a, b) < 0; got != want {
		t.Errorf("%q at %d is below the bound %q: %v, want %v", a, at, b, got, want)
	}
}

func TestStamp_OrdersAllPairs(t *testing.T) {
	t.Parallel()
	keys := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\x02", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00",
		"a\x00\x01", "a\x00\xff", "a\x01", "aa", "a\xff", "\xff", "\xff\x00", "\xff\xff"}
	times := []uint64{0, 1, 0xff, 0x100, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for _, a := range keys {
		for _, b := range keys {
			for _, at := range times {
				for _, bt := range times {
					checkPair(t, []byte(a), at, []byte(b), bt)
				}
			}
		}
	}
}

// Every string of up to 4 of the bytes that matter is a key. Sorted by their encoding,
// the versions of each key follow each other.
func TestStamp_NoKeyInterleavesWithAnother(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 3))
	alphabet := []byte{0, 1, 2, 0xfe, 0xff}
	keys := [][]byte{{}}
	for from := 0; len(keys[len(keys)-1]) < 4; {
		n := len(keys)
		for _, key := range keys[from:n] {
			for _, b := range alphabet {
				keys = append(keys, append(bytes.Clone(key), b))
			}
		}
		from = n
	}
	var all [][]byte
	for _, key := range keys {
		for range 3 {
			all = append(all, Append(nil, key, rng.Uint64()>>rng.IntN(64)))
		}
	}
	slices.SortFunc(all, bytes.Compare)
	last, lastAt := []byte(nil), uint64(0)
	for i, encoded := range all {
		key, at, ok := Decode(encoded, nil)
		order := bytes.Compare(last, key)
		if !ok || i > 0 && (order > 0 || order == 0 && lastAt < at) {
			t.Fatalf("%q at %d after %q at %d, %v", key, at, last, lastAt, ok)
		}
		last, lastAt = bytes.Clone(key), at
	}
}

func TestStamp_AllocatesNothing(t *testing.T) {
	key, buf, back := []byte("some\x00key"), make([]byte, 0, 64), make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		buf = Append(buf[:0], key, 12)
		if got, at, ok := Decode(buf, back); !ok || at != 12 || !bytes.Equal(got, key) {
			t.Error("another key")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	key, buf := []byte("some key of 24 bytes ..."), make([]byte, 0, 64)
	for b.Loop() {
		buf = Append(buf[:0], key, 12)
	}
}
