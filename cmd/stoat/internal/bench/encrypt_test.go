package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
)

func TestRun_MeasuresAnEncryptedDatabase(t *testing.T) {
	t.Parallel()
	cfg := smallConfig(t)
	cfg.Keep = true
	cfg.MasterKeys = stoat.StaticKeys(stoat.MasterKey{ID: "k", Key: bytes.Repeat([]byte("k"), stoat.MasterKeySize)})
	var out bytes.Buffer
	cfg.Out = &out
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nthe database is encrypted\n") {
		t.Errorf("the report does not say that the database is encrypted:\n%s", out.String())
	}
	kept, err := os.ReadDir(cfg.Parent)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%d directories are kept, error %v", len(kept), err)
	}
	dir := filepath.Join(cfg.Parent, kept[0].Name(), "db")
	if _, err := stoat.Open(dir, nil); !errors.Is(err, stoat.ErrKey) {
		t.Errorf("the database opens without its key: %v", err)
	}
}
