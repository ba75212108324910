//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOwner_OnlyTheUserOfADatabaseMayWriteIt(t *testing.T) {
	t.Parallel()
	dir := create(t)
	user := uint32(os.Geteuid())
	if err := checkOwner(dir, user); err != nil {
		t.Error(err)
	}
	if err := checkOwner(dir+"2", user+1); err != nil {
		t.Errorf("without a database: %v", err)
	}
	want := fmt.Sprintf("run the command as the user of the database, uid %d", user)
	if err := checkOwner(dir, user+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another user: %v", err)
	}
}

func TestOwner_IsAskedByEachCommandThatWrites(t *testing.T) {
	t.Parallel()
	dir := create(t)
	if err := os.Chown(filepath.Join(dir, "LOCK"), 4711, -1); err != nil {
		t.Skip(err) // only root may do so
	}
	for _, args := range [][]string{{"set", dir, "key", "value"}, {"check", "-repair", dir}, {"upgrade", dir}, {"configure", "-versions", "2", dir}} {
		fail(t, exitError, "uid 4711", args...)
	}
	succeed(t, "scan", dir)
}
