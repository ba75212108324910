package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// firstBackup runs backup-files with a store that does not exist, and returns what it printed.
func firstBackup(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, code := stoatCommand(t.Context(), "", append([]string{"backup-files"}, args...)...)
	if code != exitOK || errOut != "stoat: new store in "+args[len(args)-1]+"\n" {
		t.Fatalf("backup-files %q: exit code %d, errors %q", args, code, errOut)
	}
	return out
}

func TestBackupFiles_RestoresTheNewestAndAnOlderBackup(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	first := firstBackup(t, dir, store)
	before := succeed(t, "scan", dir)
	expect(t, "", "set", dir, "new", "value")
	second := succeed(t, "backup-files", dir, store)
	if !strings.Contains(first, "files of") || !strings.Contains(second, " bytes are new") {
		t.Errorf("backup-files printed %q and %q", first, second)
	}
	if out := succeed(t, "backups", store); strings.Count(out, "\n") != 2 {
		t.Errorf("backups printed %q", out)
	}
	id, _, _ := strings.Cut(first, ":")
	succeed(t, "verify-files", store)
	if out := succeed(t, "verify-files", store, id); !strings.HasPrefix(out, id) {
		t.Errorf("verify-files printed %q", out)
	}
	newest, older := filepath.Join(at, "newest"), filepath.Join(at, "older")
	succeed(t, "restore-files", store, newest)
	succeed(t, "restore-files", "-id", id, store, older)
	if got, want := succeed(t, "scan", newest), succeed(t, "scan", dir); got != want {
		t.Errorf("the newest has %d bytes of keys and values, want %d", len(got), len(want))
	}
	if got := succeed(t, "scan", older); got != before {
		t.Errorf("the older has %d bytes of keys and values, want %d", len(got), len(before))
	}
	succeed(t, "check", newest)
	if out := succeed(t, "backups", "-keep", "1", store); !strings.HasPrefix(out, "deleted 1 backups and ") || strings.Count(out, "\n") != 2 {
		t.Errorf("backups printed %q", out)
	}
	if names, err := os.ReadDir(at); err != nil || len(names) != 4 {
		t.Errorf("the commands left %v: %v", names, err)
	}
}

func TestRestoreFiles_OfAnEncryptedDatabaseWarnsWithoutItsKeys(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store, copied, keys := filepath.Join(at, "db"), filepath.Join(at, "store"), filepath.Join(at, "copy"), filepath.Join(at, "keys")
	if err := os.WriteFile(keys, []byte("one "+strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "create", "-key-file", keys, dir)
	succeed(t, "set", "-key-file", keys, dir, "k", "v")
	firstBackup(t, "-key-file", keys, dir, store)
	succeed(t, "restore-files", "-key-file", keys, store, copied)
	out, errOut, code := stoatCommand(t.Context(), "", "restore-files", store, copied+"2")
	if code != exitOK || !strings.HasPrefix(out, "restored ") || !strings.Contains(errOut, "warning: without -key-file, "+copied+"2 has the identity") {
		t.Errorf("without -key-file: exit code %d, printed %q, errors %q", code, out, errOut)
	}
	expect(t, "v", "get", "-key-file", keys, copied+"2", "k")
}

func TestBackupFiles_FailuresAreExplained(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store, copied := filepath.Join(at, "db"), filepath.Join(at, "store"), filepath.Join(at, "copy")
	fill(t, dir)
	id, _, _ := strings.Cut(firstBackup(t, dir, store), ":")
	files, err := os.ReadDir(filepath.Join(store, "files"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the store has %d files: %v", len(files), err)
	}
	damaged := filepath.Join(store, "files", files[0].Name())
	if err := os.WriteFile(damaged, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ args, says string }{
		{"restore-files " + store + " " + dir, "exists"},
		{"restore-files " + store + " " + copied, "corrupt data in files/" + files[0].Name()},
		{"restore-files -id ../x " + store + " " + copied, "no such backup"},
		{"restore-files " + copied + " " + copied, "the store has none"},
		{"verify-files " + store, "corrupt data in files/" + files[0].Name()},
		{"verify-files " + store + " " + id[:len(id)-1] + "x", "no such backup"},
	} {
		_, errOut, code := stoatCommand(t.Context(), "", strings.Split(x.args, " ")...)
		if code != exitError || !strings.Contains(errOut, x.says) {
			t.Errorf("stoat %s: exit code %d, %q", x.args, code, errOut)
		}
	}
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("a restore that failed left a database: %v", err)
	}
}

func TestBackupFiles_WithVerifyReplacesADamagedFileAsVerifyFilesSays(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	id, _, _ := strings.Cut(firstBackup(t, dir, store), ":")
	list, err := os.ReadFile(filepath.Join(store, "lists", id))
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(list), ".table ")
	if begin < 0 {
		t.Fatal("the backup has no table")
	}
	// The first table is the oldest. The last one may be of the log, and then be another each time.
	object := filepath.Join(store, "files", strings.Fields(string(list[begin:]))[2])
	content, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(object, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fail(t, exitError, "'stoat backup-files -verify DIR "+store+"' replaces the damaged files", "verify-files", store)
	if out := succeed(t, "backup-files", "-verify", dir, store); !strings.HasSuffix(out, "; damaged files replaced: 1\n") {
		t.Errorf("backup-files printed %q", out)
	}
	succeed(t, "verify-files", store)
	succeed(t, "verify-files", store, id)
	if out := succeed(t, "backup-files", "-verify", dir, store); strings.Contains(out, "replaced") {
		t.Errorf("backup-files of an intact store printed %q", out)
	}
	if err := os.WriteFile(filepath.Join(store, "lists", id), []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut, code := stoatCommand(t.Context(), "", "verify-files", store, id)
	if code != exitError || strings.Contains(errOut, "-verify") {
		t.Errorf("verify-files of a damaged list: exit code %d, %q", code, errOut)
	}
}

// This test changes the working directory, so it does not run in parallel.
func TestBackupFiles_OfTheWorkingDirectoryPutsNothingIntoTheDatabase(t *testing.T) {
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	// A directory that the command did not make stays. It shows where the checkpoint was.
	temp := dir + tempSuffix
	if err := os.MkdirAll(filepath.Join(temp, "checkpoint"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(temp, "checkpoint", "NOTES"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	fail(t, exitError, filepath.Join(temp, "checkpoint")+" has a file that no backup made", "backup-files", ".", store)
	if err := os.RemoveAll(temp); err != nil {
		t.Fatal(err)
	}
	firstBackup(t, ".", store)
	if names, err := filepath.Glob(filepath.Join(dir, ".backup*")); err != nil || len(names) != 0 {
		t.Errorf("the database has %v: %v", names, err)
	}
}

func TestBackupFiles_WithTempNeedsNothingBesideTheDatabase(t *testing.T) {
	t.Parallel()
	at, elsewhere := t.TempDir(), t.TempDir()
	dir, store, temp := filepath.Join(at, "db"), filepath.Join(elsewhere, "store"), filepath.Join(elsewhere, "temp")
	fill(t, dir)
	// Root can write to any parent, so a file takes the name as well.
	if err := os.WriteFile(dir+tempSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(at, 0o700) }) // so that the test can remove it
	fail(t, exitError, tempSuffix, "backup-files", dir, store)
	firstBackup(t, "-temp", temp, dir, store)
	succeed(t, "verify-files", store)
	if _, err := os.Stat(temp); !os.IsNotExist(err) {
		t.Errorf("the command left its directory: %v", err)
	}
	// A directory that the command did not make stays. It shows where the checkpoint was.
	notes := filepath.Join(temp, "checkpoint", "NOTES")
	if err := errors.Join(os.MkdirAll(filepath.Dir(notes), 0o700), os.WriteFile(notes, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	fail(t, exitError, filepath.Dir(notes)+" has a file that no backup made", "backup-files", "-temp", temp, dir, store)
}

func TestBackupFiles_OfALinkWorksBesideTheRealDirectory(t *testing.T) {
	t.Parallel()
	at, elsewhere := t.TempDir(), t.TempDir()
	dir, link, store := filepath.Join(elsewhere, "db"), filepath.Join(at, "link"), filepath.Join(at, "store")
	fill(t, dir)
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	// A directory that the command did not make stays. It shows where the checkpoint was.
	notes := filepath.Join(dir+tempSuffix, "checkpoint", "NOTES")
	if err := errors.Join(os.MkdirAll(filepath.Dir(notes), 0o700), os.WriteFile(notes, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	fail(t, exitError, filepath.Dir(notes)+" has a file that no backup made", "backup-files", link, store)
}

func TestBackupFiles_TempInTheDatabaseIsWrongUsage(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	for _, temp := range []string{dir, filepath.Join(dir, "temp")} {
		fail(t, exitUsage, "-temp "+temp+" is in "+dir, "backup-files", "-temp", temp, dir, store)
	}
	fail(t, exitUsage, "-temp is empty", "backup-files", "-temp", "", dir, store)
	firstBackup(t, "-temp", dir+"2", dir, store)
	link := filepath.Join(at, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, temp := range []string{filepath.Join(dir, "temp"), filepath.Join(link, "temp")} {
		fail(t, exitUsage, "-temp "+temp+" is in "+link, "backup-files", "-temp", temp, link, store)
	}
}

func TestBackupFiles_SaysThatAStoreIsNewOnlyIfItIs(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	firstBackup(t, dir, store)
	lists := filepath.Join(store, "lists")
	if err := os.Rename(lists, lists+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("lists", lists); err != nil { // root can read all but this
		t.Fatal(err)
	}
	_, errOut, code := stoatCommand(t.Context(), "", "backup-files", dir, store)
	if code != exitError || strings.Contains(errOut, "new store") {
		t.Errorf("a store that cannot be read: exit code %d, errors %q", code, errOut)
	}
}

func TestBackups_OfNoStoreIsAnErrorThatCreatesNothing(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	typo, dir, empty := filepath.Join(at, "typo"), filepath.Join(at, "db"), filepath.Join(at, "empty")
	fill(t, dir)
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{typo, dir, empty} {
		fail(t, exitError, "there is no store of file backups in "+store, "backups", store)
		fail(t, exitError, "there is no store of file backups in "+store, "backups", "-keep", "1", store)
	}
	if _, err := os.Stat(typo); !os.IsNotExist(err) {
		t.Errorf("the command created a directory: %v", err)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("the database has the files %v, had %v: %v", after, before, err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
		t.Errorf("the empty directory has %v: %v", left, err)
	}
}

func TestBackups_OfAStoreWithoutListsDeletesNoFile(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	firstBackup(t, dir, store)
	succeed(t, "backup-files", dir, store)
	lists := filepath.Join(store, "lists")
	if err := os.Rename(lists, lists+"2"); err != nil {
		t.Fatal(err)
	}
	fail(t, exitError, "no list of one", "backups", "-keep", "1", store)
	if err := os.Rename(lists+"2", lists); err != nil {
		t.Fatal(err)
	}
	succeed(t, "verify-files", store)
}

func TestBackups_KeepingNoneIsWrongUsage(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	firstBackup(t, dir, store)
	for _, keep := range []string{"0", "-1"} {
		fail(t, exitUsage, "-keep is "+keep+", want at least 1", "backups", "-keep", keep, store)
	}
	if out := succeed(t, "backups", store); strings.Count(out, "\n") != 1 {
		t.Errorf("backups printed %q", out)
	}
}

func TestBackups_DeletesOneBackupAlsoIfItsListIsDamaged(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	fill(t, dir)
	first, _, _ := strings.Cut(firstBackup(t, dir, store), ":")
	second, _, _ := strings.Cut(succeed(t, "backup-files", dir, store), ":")
	if err := os.WriteFile(filepath.Join(store, "lists", second), []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	fail(t, exitError, "corrupt data in lists/"+second, "backups", "-keep", "1", store)
	fail(t, exitError, "no such backup", "backups", "-delete", second[:len(second)-1], store)
	fail(t, exitError, "no such backup", "backups", "-delete", "../files", store)
	out := succeed(t, "backups", "-delete", second, "-keep", "1", store)
	if !strings.HasPrefix(out, "deleted backup "+second+"\ndeleted 0 backups and ") || !strings.Contains(out, first) || strings.Count(out, second) > 1 {
		t.Errorf("backups printed %q", out)
	}
	succeed(t, "verify-files", store, first)
	out, errOut, code := stoatCommand(t.Context(), "", "backups", "-delete", first, "-keep", "1", store)
	if code != exitError || out != "deleted backup "+first+"\n" || !strings.Contains(errOut, "bring the lists back") {
		t.Errorf("the deletion of the last backup: exit code %d, printed %q, errors %q", code, out, errOut)
	}
}
