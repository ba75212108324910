package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// touched reads b and returns the value of the panic, or nil.
func touched(b []byte) (panicked any) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { panicked = recover() }()
	sum := byte(0)
	for _, x := range b {
		sum += x
	}
	return sum
}

func TestMappingFault_IsAnErrorOfItsFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 3*pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OS().Open(name, CatTable)
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(3 * int64(pageSize))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	err = MappingFault(touched(m.Bytes()))
	if !errors.Is(err, ErrIO) || !strings.Contains(err.Error(), name) {
		t.Fatalf("got %v", err)
	}
	if _, err := m.Populate(0, int64(pageSize)); err == nil {
		t.Error("a page that is gone was populated")
	}
	panicked := touched(m.Bytes())
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := MappingFault(panicked); err != nil {
		t.Errorf("a fault where nothing is mapped any more: %v", err)
	}
}

func TestMappingFault_IgnoresOtherPanics(t *testing.T) {
	t.Parallel()
	for _, p := range []any{nil, "text", errors.New("error")} {
		if err := MappingFault(p); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}
