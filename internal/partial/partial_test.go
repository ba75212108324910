package partial

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// joiner is a function that joins operands by a sign.
type joiner struct{}

func (joiner) Name() string { return "joiner" }

func (joiner) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	dst = append(dst, existing...)
	for _, o := range operands {
		dst = append(append(dst, '+'), o...)
	}
	return dst, nil
}

// failing is a function that fails, or panics.
type failing struct{ panics bool }

func (failing) Name() string { return "failing" }

func (f failing) Merge(dst, _, _ []byte, _ [][]byte) ([]byte, error) {
	if f.panics {
		panic("on purpose")
	}
	return dst, errors.New("on purpose")
}

// result describes what a chain makes of a base.
func result(t *testing.T, c *Chain, b Base, existing string) string {
	t.Helper()
	o, err := c.Over(b)
	if err != nil {
		t.Fatal(err)
	}
	if !o.Present {
		return "absent"
	}
	value := []byte(existing)
	if len(o.Operands) > 0 {
		if value, err = o.Value(joiner{}, []byte("key"), value); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%s until %d", value, o.Expires)
}

func TestChain_StepsFindWhatHasNotExpired(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		base  Base
		steps []Step
		want  string
	}{
		{"an operand on nothing", Base{}, []Step{{TimeMs: 5, Operand: []byte("a")}}, "+a until 0"},
		{"an operand on a value", Base{true, 0}, []Step{{TimeMs: 5, Operand: []byte("a")}}, "v+a until 0"},
		{"an operand keeps the expiry", Base{true, 6}, []Step{{TimeMs: 5, Operand: []byte("a")}}, "v+a until 6"},
		{"an operand at the expiry", Base{true, 5}, []Step{{TimeMs: 5, Operand: []byte("a")}}, "+a until 0"},
		{"a renewal of nothing", Base{}, []Step{{TimeMs: 5, Expires: 9}}, "absent"},
		{"a renewal", Base{true, 6}, []Step{{TimeMs: 5, Expires: 9}}, "v until 9"},
		{"a renewal for good", Base{true, 6}, []Step{{TimeMs: 5}}, "v until 0"},
		{"a renewal at the expiry", Base{true, 5}, []Step{{TimeMs: 5, Expires: 9}}, "v until 5"},
		{"an operand, then a renewal", Base{}, []Step{{TimeMs: 5, Operand: []byte("a")}, {TimeMs: 5, Expires: 9}}, "+a until 9"},
		{"a renewal, then an operand", Base{}, []Step{{TimeMs: 5, Expires: 9}, {TimeMs: 5, Operand: []byte("a")}}, "+a until 0"},
		{"an operand after a renewal that is over", Base{true, 6},
			[]Step{{TimeMs: 5, Expires: 7}, {TimeMs: 7, Operand: []byte("a")}, {TimeMs: 8, Operand: nil, Expires: 20}}, "+a until 20"},
	} {
		var chain Chain
		for i := len(c.steps) - 1; i >= 0; i-- {
			k := base.KindRenew
			if c.steps[i].Operand != nil {
				k = base.KindMerge
			}
			chain.Add(k, appendStep(nil, &c.steps[i]))
		}
		if got := result(t, &chain, c.base, "v"); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestChain_JoinedMeansTheSame joins random chains and demands the same outcome on every
// base.
func TestChain_JoinedMeansTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var chain Chain
		for i := range 1 + rng.IntN(6) {
			s := Step{TimeMs: 1 + rng.Uint64N(6)}
			k := base.KindRenew
			if rng.IntN(2) == 0 {
				k, s.Operand = base.KindMerge, fmt.Append(nil, i)
			} else {
				s.Expires = rng.Uint64N(9)
			}
			chain.Add(k, appendStep(nil, &s))
		}
		value, kind, err := chain.Joined([]byte("key"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var joined Chain
		joined.Add(kind, value)
		for _, b := range []Base{{}, {true, 0}, {true, 1}, {true, 3}, {true, 4}, {true, 6}, {true, 9}} {
			if got, want := result(t, &joined, b, "v"), result(t, &chain, b, "v"); got != want {
				t.Fatalf("seed %d, base %+v: %s, want %s", seed, b, got, want)
			}
		}
	}
}

func TestOutcome_OnlyTheValueBelowKeepsItsUserByte(t *testing.T) {
	t.Parallel()
	on := base.Meta{Kind: base.KindPointer, User: 7, ExpiresAt: 3}
	for _, c := range []struct {
		from bool
		want base.Meta
	}{{true, base.Meta{Kind: base.KindSet, User: 7, ExpiresAt: 5}}, {false, base.Meta{Kind: base.KindSet, ExpiresAt: 5}}} {
		o := Outcome{Base: Base{Present: true, Expires: 5}, FromBase: c.from}
		if got := o.Meta(on); got != c.want {
			t.Errorf("from base %v: %+v, want %+v", c.from, got, c.want)
		}
	}
}

func TestOutcome_AFailingFunctionIsAnError(t *testing.T) {
	t.Parallel()
	for _, f := range []failing{{false}, {true}} {
		o := Outcome{Operands: [][]byte{{1}}}
		if _, err := o.Value(f, []byte("key"), nil); !errors.Is(err, ErrFunction) {
			t.Errorf("panics %v: %v, want ErrFunction", f.panics, err)
		}
	}
}

func TestFunctions_AnUnknownOneIsNamed(t *testing.T) {
	t.Parallel()
	fs := NewFunctions(func(key []byte) string { return string(key) }, []Function{joiner{}})
	if _, err := fs.Of([]byte("joiner")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "other"} {
		if _, err := fs.Of([]byte(name)); !errors.Is(err, ErrNoFunction) || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%q: %v, want ErrNoFunction", name, err)
		}
	}
	var none *Functions
	if _, err := none.Of([]byte("joiner")); !errors.Is(err, ErrNoFunction) {
		t.Errorf("no functions: %v", err)
	}
}

// FuzzDecode checks that decoding reports corruption, or steps that encode to the same
// bytes.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(base.KindMerge), AppendRenewal(AppendOperand(nil, 7, []byte("operand")), 300, 1<<40))
	f.Add(uint8(base.KindRenew), AppendRenewal(nil, 1, 0))
	f.Add(uint8(base.KindMerge), []byte{})
	f.Add(uint8(base.KindMerge), []byte{0xff, 0xff, 0xff, 0xff, 1, 1})
	f.Fuzz(func(t *testing.T, k uint8, value []byte) {
		steps, err := Decode(nil, base.Kind(k), value)
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		var again []byte
		for i := range steps {
			again = appendStep(again, &steps[i])
		}
		if !bytes.Equal(again, value) {
			t.Fatalf("%x decodes to what encodes to %x", value, again)
		}
	})
}
