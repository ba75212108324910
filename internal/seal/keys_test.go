package seal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestStaticKeys_CopyTheKeys(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, KeySize)
	p := StaticKeys(MasterKey{"m", key})
	clear(key)
	_, current, err := p.Current(t.Context())
	must(t, err)
	named, err := p.Key(t.Context(), "m")
	must(t, err)
	if want := bytes.Repeat([]byte{7}, KeySize); !bytes.Equal(current, want) || !bytes.Equal(named, want) {
		t.Errorf("the keys are %x and %x, want %x", current, named, want)
	}
}

// A provider that has other bytes under the ID of the master key never gets to seal KEYS.
func TestKeys_AnotherMasterKeyWithTheSameIDIsRefused(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	o := options(disk)
	o.MaxAge = 0 // each file gets a new data key
	p := &provider{"m", bytes.Repeat([]byte{7}, KeySize)}
	o.Provider = p
	for _, load := range []bool{false, true} {
		keys, err := Create(t.Context(), o)
		if load {
			keys, err = Load(t.Context(), o)
		}
		must(t, err)
		p.key = bytes.Repeat([]byte{8}, KeySize)
		if err := keys.RotateMaster(t.Context()); !errors.Is(err, base.ErrKey) {
			t.Errorf("rotation to another key with the same ID: %v", err)
		}
		write(t, keys.FS(disk), "/db/000001.table", []byte("content"))
		if n := keys.DataKeys(); n != 1 {
			t.Errorf("%d data keys, want 1", n)
		}
		p.key = bytes.Repeat([]byte{7}, KeySize)
		again, err := Load(t.Context(), o)
		must(t, err)
		if got, err := readAll(again.FS(disk), "/db/000001.table"); err != nil || string(got) != "content" {
			t.Errorf("the file has %q, %v", got, err)
		}
		must(t, disk.Remove("/db/000001.table"))
	}
}
