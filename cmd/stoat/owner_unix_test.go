//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// asUser runs a command line as if the process had another user.
func asUser(ctx context.Context, user int, args ...string) error {
	cmd, _ := find(args[0])
	c := newCall(cmd, console{strings.NewReader(""), io.Discard, io.Discard})
	c.user = user
	return cmd.run(ctx, c, args[1:])
}

func TestOwner_OnlyTheUserOfADatabaseMayWriteIt(t *testing.T) {
	t.Parallel()
	dir, user := create(t), os.Geteuid()
	check := func(dir string, user int) error { return (&call{user: user}).checkUser(dir) }
	if err := check(dir, user); err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf("belongs to uid %d: run the command as the user of the database, uid %d", user+1, user)
	if err := check(dir, user+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another user: %v, want %s", err, want)
	}
	other := t.TempDir()
	for _, name := range []string{"program.log", "MANIFEST-000001.tmp", "notes.table"} {
		if err := os.WriteFile(filepath.Join(other, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{dir + "2", other} {
		if err := check(dir, user+1); err != nil {
			t.Errorf("without a database: %v", err)
		}
	}
}

// A copy may have made LOCK as another user.
func TestOwner_OneFileOfTheUserIsEnough(t *testing.T) {
	t.Parallel()
	const lock, manifest, third = 1, 2, 3
	files := []ownedFile{{"000002.log", manifest}, {"LOCK", lock}, {"MANIFEST-000001", manifest}}
	for _, user := range []uint32{lock, manifest} {
		if _, foreign := foreignOwner(files, user); foreign {
			t.Errorf("user %d owns a file and is refused", user)
		}
	}
	if owner, foreign := foreignOwner(files, third); !foreign || owner != manifest {
		t.Errorf("a third user: refused %t, owner %d, want that of the manifest", foreign, owner)
	}
	if owner, foreign := foreignOwner(files[:2], third); !foreign || owner != lock {
		t.Errorf("without a manifest: refused %t, owner %d, want that of LOCK", foreign, owner)
	}
	if _, foreign := foreignOwner([]ownedFile{{"notes.txt", manifest}}, third); foreign {
		t.Error("a directory without a database is refused")
	}
}

func TestOwner_IsAskedByEachCommandThatWrites(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, keys, file := create(t), filepath.Join(at, "keys"), packed(t, "a\t1\n")
	if err := os.WriteFile(keys, []byte("one "+strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(at, name) }
	succeed(t, "set", dir, "key", "value")
	writes := map[string][][]string{
		"set": {{dir, "key", "value"}}, "del": {{dir, "key"}, {"-prefix", dir, "k"}, {"-range", dir, "a", "z"}},
		"renew": {{"-never", dir, "key"}}, "load": {{dir, "-"}, {"-sorted", dir, "-"}}, "ingest": {{dir, file}},
		"keyspaces": {{"-create", "k", dir}, {"-drop", "k", dir}}, "configure": {{"-versions", "2", dir}},
		"check": {{"-repair", dir}}, "compact": {{dir}}, "collect": {{dir}}, "rekey": {{"-key-file", keys, dir}}, "upgrade": {{dir}},
	}
	reads := map[string][]string{
		"get": {dir, "key"}, "scan": {dir}, "estimate": {dir}, "info": {dir}, "stats": {dir}, "keyspaces": {dir}, "check": {dir},
		"changes": {dir}, "salvage": {dir, path("saved")}, "checkpoint": {dir, path("copy")},
		"backup": {dir, path("file")}, "backup-files": {dir, path("store")},
	}
	makes := []string{"create", "restore", "restore-files"}
	other := os.Geteuid() + 1
	for _, cmd := range commands() {
		written, isWrite := writes[cmd.name]
		read, isRead := reads[cmd.name]
		for _, args := range written {
			args = append([]string{cmd.name}, args...)
			if err := asUser(t.Context(), other, args...); err == nil || !strings.Contains(err.Error(), "run the command as the user of the database") {
				t.Errorf("stoat %q: %v", args, err)
			}
		}
		if isRead {
			if err := asUser(t.Context(), other, append([]string{cmd.name}, read...)...); err != nil {
				t.Errorf("stoat %s %q: %v", cmd.name, read, err)
			}
		}
		if !isWrite && !isRead && strings.Contains(cmd.args, "DIR") && !slices.Contains(makes, cmd.name) {
			t.Errorf("this test lacks the command %s", cmd.name)
		}
	}
	expect(t, "value", "get", dir, "key")
}

func TestOwner_ABackupAfterACrashOfAnotherUsersWriterSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir, file := crashed(t), filepath.Join(t.TempDir(), "file")
	user := os.Geteuid()
	err := asUser(t.Context(), user+1, "backup", dir, file)
	want := fmt.Sprintf("did not close the database, so it must be opened once: no file of the database in %s belongs to uid %d", dir, user+1)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("before that user opens it: %v, want %s", err, want)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a backup that failed is there: %v", err)
	}
	succeed(t, "collect", dir)
	if err := asUser(t.Context(), user+1, "backup", dir, file); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
