package fault_test

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/vfs"
)

// lostPage maps a file and cuts it: a look at the bytes is a fault.
func lostPage(t *testing.T) []byte {
	t.Helper()
	f, err := vfs.OS().Create(t.TempDir()+"/f", vfs.CatNone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 1<<16), 0); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(0), f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m.Bytes()
}

func TestFault_EndsInTheOutermostScopeOrTheNearestGuard(t *testing.T) {
	t.Parallel()
	lost := lostPage(t)
	passed := false
	inner := func() (err error) {
		defer fault.Enter().Leave(&err)
		if lost[0] == 0 {
			t.Error("a lost page was read")
		}
		return nil
	}
	nested := func() (err error) {
		defer fault.Enter().Leave(&err)
		err = inner()
		passed = true
		return err
	}
	for what, run := range map[string]func() error{
		"a scope":           inner,
		"a scope in one":    nested,
		"a guard":           func() error { return fault.Guard(inner) },
		"a guard in itself": func() error { return fault.Guard(func() error { return fault.Guard(inner) }) },
	} {
		if err := run(); !errors.Is(err, vfs.ErrIO) || guarded() {
			t.Errorf("%s: error %v, guarded after it: %t", what, err, guarded())
		}
	}
	if passed {
		t.Error("an inner scope takes a fault")
	}
}
