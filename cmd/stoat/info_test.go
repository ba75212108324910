package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
)

func TestInfo_DescribesADatabaseBesideItsWriter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ks, err := db.Keyspace("people", &stoat.KeyspaceOptions{NumVersions: 3, Compression: stoat.CompressionFast})
	if err == nil {
		err = db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("ann"), []byte("1")) })
	}
	if err != nil {
		t.Fatal(err)
	}
	text := succeed(t, "info", dir)
	for _, want := range []string{"log segments", "encryption", "none", "(default)", `"people"`, "about 1 keys", "versions 3, compression fast"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	var d description
	if err := json.Unmarshal([]byte(succeed(t, "info", "-json", dir)), &d); err != nil {
		t.Fatal(err)
	}
	if d.Contents == nil || len(d.Contents.Keyspaces) != 2 || d.Contents.Keyspaces[1].Keys != 1 || d.Error != "" {
		t.Errorf("got %+v", d)
	}
}

func TestInfo_PrintsWhatItCanWithoutTheKey(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, keys := filepath.Join(at, "db"), filepath.Join(at, "keys")
	if err := os.WriteFile(keys, []byte("main "+strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "create", "-key-file="+keys, dir)
	if text := succeed(t, "info", "-key-file="+keys, dir); !strings.Contains(text, `master key "main"`) || !strings.Contains(text, "(default)") {
		t.Error(text)
	}
	out, errOut, code := stoatCommand(t.Context(), "", "info", dir)
	if code != exitError || !strings.Contains(out, `master key "main"`) || strings.Contains(out, "(default)") || !strings.Contains(errOut, "needs the flag -key-file") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errOut)
	}
	var d description
	out, _, _ = stoatCommand(t.Context(), "", "info", "-json", dir)
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.MasterKey != "main" || d.Error == "" || d.Contents != nil {
		t.Errorf("%v, %+v", err, d)
	}
}

func TestInfo_TellsAboutADamagedDirectory(t *testing.T) {
	t.Parallel()
	dir := create(t)
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, name := range manifests {
		if err := os.WriteFile(name, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, code := stoatCommand(t.Context(), "", "info", dir)
	if code != exitError || !strings.Contains(out, "manifests") || !strings.Contains(errOut, "corrupt") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errOut)
	}
	fail(t, exitError, "there is no database in", "info", t.TempDir())
	fail(t, exitError, "there is no database in", "info", filepath.Join(dir, "none"))
}
