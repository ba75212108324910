package main

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// A pieces counts what is written, and keeps the length of the longest write.
type pieces struct {
	bytes.Buffer
	longest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.longest = max(p.longest, len(b))
	return p.Buffer.Write(b)
}

func TestCommands_PrintALongValueInPieces(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	succeed(t, "create", dir)
	value := strings.Repeat("\x00\"", 2<<20)
	if _, errOut, code := stoatCommand(t.Context(), value, "set", dir, "k", "-"); code != exitOK {
		t.Fatal(errOut)
	}
	text := strings.Repeat(`\x00"`, 2<<20) + "\n"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"k\t" + text, []string{"scan", dir}},
		{"1\tSet\t(default)\tk\t" + text, []string{"changes", dir}},
		{strings.Repeat("0022", 2<<20) + "\n", []string{"get", "-hex", dir, "6b"}},
	} {
		var out, errOut pieces
		code := run(t.Context(), c.args, console{strings.NewReader(""), &out, &errOut})
		if code != exitOK || out.String() != c.want {
			t.Errorf("%s: exit code %d, %d bytes, want %d; errors %q", c.args[0], code, out.Len(), len(c.want), errOut.String())
		}
		if out.longest > 1<<20 {
			t.Errorf("%s prints %d bytes at once", c.args[0], out.longest)
		}
	}
}

func TestText_PiecesAreTheWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var value []byte
		for len(value) < pieceMax*5/2 {
			value = append(value, []string{"a", "\"", "\\", "é", "€", "😀", "\xff", "\x80", "\xf0\x9f", "\x00"}[r.IntN(10)]...)
			if r.IntN(50) == 0 {
				value = append(value, bytes.Repeat([]byte("\x98"), r.IntN(9))...)
			}
		}
		for _, text := range []*textFormat{{}, {hex: true}} {
			var out bytes.Buffer
			last, err := text.encodeLong(&out, []byte("k\t"), value)
			if got, want := out.String()+string(last), "k\t"+string(text.encode(nil, value)); err != nil || got != want {
				t.Fatalf("seed %d: other text, error %v", seed, err)
			}
		}
	}
}
