package values

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// rescue opens data as a damaged file; it returns nil if that fails.
func rescue(t *testing.T, data []byte, hint *Hint) *Damaged {
	t.Helper()
	f, err := memfs.New().Create("f", vfs.CatValue)
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDamaged(f, int64(len(data)), "f", hint)
	if err != nil {
		mustBeCorrupt(t, err)
		return nil
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// rescued returns how many of the values can be read, and demands that each is right.
func rescued(t *testing.T, d *Damaged, values []stored) (n int) {
	t.Helper()
	for _, s := range values {
		v, err := d.Value(s.p, s.key, s.seq)
		var got []byte
		if err == nil {
			got, err = io.ReadAll(v)
		}
		if err == nil && !bytes.Equal(got, s.value) {
			t.Fatalf("the value of %q is %.40q, want %.40q", s.key, got, s.value)
		}
		if err == nil {
			n++
		} else if !errors.Is(err, base.ErrCorrupt) {
			t.Fatal(err)
		}
	}
	return n
}

// FuzzDamaged reads what verifies of a fuzzed file.
func FuzzDamaged(f *testing.F) {
	for _, remapped := range []bool{false, true} {
		data, _ := smallFile(f, remapped)
		f.Add(data, true)
		f.Add(data, false)
	}
	_, values := smallFile(f, false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		data = slices.Clone(data)
		if seal {
			reseal(data)
		}
		if d := rescue(t, data, nil); d != nil {
			for _, s := range values {
				v, err := d.Value(s.p, s.key, s.seq)
				if err == nil {
					err = v.Check()
				}
				mustBeCorrupt(t, err)
			}
			mustBeCorrupt(t, d.Records(func(RecordInfo) error { return nil }))
		}
	})
}

// Header, footer and remap are not needed: any two of them can be lost, with the salt.
func TestDamaged_ValuesSurviveWithoutTheRestOfTheFile(t *testing.T) {
	t.Parallel()
	for _, remapped := range []bool{false, true} {
		data, values := smallFile(t, remapped)
		intact := rescue(t, data, nil)
		hint := &Hint{Num: intact.num, Salt: intact.salt}
		all := rescued(t, intact, values)
		for name, spoil := range map[string]func(b []byte){
			"header": func(b []byte) { clear(b[:fileHeaderSize]) },
			"footer": func(b []byte) { clear(b[len(b)-footerSize:]) },
			"remap":  func(b []byte) { clear(b[intact.v.end:]) },
			"all": func(b []byte) {
				clear(b[:fileHeaderSize])
				clear(b[intact.v.end:])
			},
		} {
			bad := slices.Clone(data)
			spoil(bad)
			if got := rescued(t, rescue(t, bad, hint), values); got != all || all == 0 {
				t.Errorf("remapped %t, without %s: %d of %d values are left", remapped, name, got, all)
			}
		}
	}
}

func TestDamaged_NeverShowsWhatWasNotWritten(t *testing.T) {
	t.Parallel()
	left := 0
	for _, remapped := range []bool{false, true} {
		data, values := smallFile(t, remapped)
		for seed := range uint64(dose.Short(100, 600)) {
			rng := rand.New(rand.NewPCG(seed, 9))
			bad := slices.Clone(data)
			from := rng.IntN(len(bad))
			for i := range min(1+rng.IntN(512), len(bad)-from) {
				bad[from+i] = byte(rng.Uint32())
			}
			if d := rescue(t, bad, nil); d != nil {
				left += rescued(t, d, values)
			}
		}
	}
	if left == 0 {
		t.Error("no value was ever left")
	}
}
