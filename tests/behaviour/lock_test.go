package behaviour

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// holderEnv makes this test binary open the database in the directory it
// names, commit once, say so, and wait to be killed; with readerEnv it reads
// what was committed, instead.
const (
	holderEnv = "STOAT_TEST_HOLD_DIR"
	readerEnv = "STOAT_TEST_HOLD_TO_READ"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderEnv); dir != "" {
		os.Exit(hold(dir))
	}
	os.Exit(m.Run())
}

func hold(dir string) int {
	readOnly := os.Getenv(readerEnv) != ""
	db, err := stoat.Open(dir, &stoat.Options{ReadOnly: readOnly})
	switch {
	case err != nil:
	case readOnly:
		err = db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("held")); return err })
	default:
		err = db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("held"), []byte("yes")) })
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println("holding")
	// Until the parent kills this process or goes away.
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// startHolder starts a process that has the database open.
func startHolder(t *testing.T, dir string, env ...string) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), holderEnv+"="+dir), env...)
	stdin, err := cmd.StdinPipe()
	testkit.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	var killed bool
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill() // it may have ended by itself; Wait tells
			_ = cmd.Wait()         // the error is the signal
			_ = stdin.Close()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "holding\n" {
		t.Fatalf("the other process says %q, error %v", line, err)
	}
	return kill
}

func wantLocked(t *testing.T, dir, what string) {
	t.Helper()
	db, err := stoat.Open(dir, nil)
	if err == nil {
		_ = db.Close() // the failure is that it opened
	}
	testkit.WantError(t, what, err, stoat.ErrLocked)
}

func TestLock_RefusesSecondOpenInOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := stoat.Open(dir, nil)
	testkit.Must(t, err)
	wantLocked(t, dir, "second open")
	wantLocked(t, filepath.Join(dir, "..", filepath.Base(dir)), "second open by another path")
	// What was refused must not have harmed the one that holds the lock.
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) }))
	wantLocked(t, dir, "third open")
	testkit.Must(t, db.Close())
	db, err = stoat.Open(dir, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
}

func TestLock_RefusesSecondOpenInMemory(t *testing.T) {
	t.Parallel()
	opts := stoat.Options{FS: memfs.New()}
	db, err := stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	_, err = stoat.Open(testkit.Dir, &opts)
	testkit.WantError(t, "second open", err, stoat.ErrLocked)
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
}

func TestLock_RefusesOpenThroughSymlink(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "real")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	testkit.Must(t, os.Mkdir(dir, 0o700))
	db, err := stoat.Open(link, nil)
	testkit.Must(t, err)
	wantLocked(t, dir, "open of what the link leads to")
	testkit.Must(t, db.Close())
	db, err = stoat.Open(dir, nil)
	testkit.Must(t, err)
	wantLocked(t, link, "open through the link")
	testkit.Must(t, db.Close())
}

func TestLock_RefusesOpenInAnotherProcessUntilTheFirstIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kill := startHolder(t, dir)
	wantLocked(t, dir, "open beside another process")
	kill()
	db, err := stoat.Open(dir, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		value, err := tx.Get([]byte("held"))
		if err != nil || string(value) != "yes" {
			t.Errorf("the commit of the killed process is %q, error %v", value, err)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

// A user may remove LOCK and believe that a crash has left it.
func TestLock_HoldsWhenItsFileWasRemoved(t *testing.T) {
	t.Parallel()
	refused := func(dir, what string) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
			if runtime.GOOS != "windows" {
				t.Fatal(err)
			}
			return // it cannot be removed
		}
		wantLocked(t, dir, what)
		db, err := stoat.Open(dir, &stoat.Options{ReadOnly: true})
		if err == nil {
			_ = db.Close() // the failure is that it opened
		}
		testkit.WantError(t, what+", to read", err, stoat.ErrLocked)
	}
	dir := t.TempDir()
	db, err := stoat.Open(dir, nil)
	testkit.Must(t, err)
	refused(dir, "beside this process")
	testkit.Must(t, db.Close())
	kill := startHolder(t, dir)
	refused(dir, "beside another process")
	kill()
	reader, err := stoat.Open(dir, &stoat.Options{ReadOnly: true}) // there is no LOCK
	testkit.Must(t, err)
	testkit.Must(t, reader.Close())
	db, err = stoat.Open(dir, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(setOne))
	testkit.Must(t, db.Close())
}

func TestLock_ReadersShareADatabaseAndKeepWritersOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kill := startHolder(t, dir)
	db, err := stoat.Open(dir, &stoat.Options{ReadOnly: true})
	if err == nil {
		_ = db.Close() // the failure is that it opened
	}
	testkit.WantError(t, "reading beside another process that writes", err, stoat.ErrLocked)
	kill()

	killReader := startHolder(t, dir, readerEnv+"=1")
	read := func() *stoat.DB {
		db, err := stoat.Open(dir, &stoat.Options{ReadOnly: true})
		testkit.Must(t, err)
		testkit.Must(t, db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("held")); return err }))
		return db
	}
	first, second := read(), read()
	wantLocked(t, dir, "writing beside three readers")
	testkit.Must(t, first.Close())
	testkit.Must(t, second.Close())
	wantLocked(t, dir, "writing beside another process that reads")
	first = read()
	killReader()
	wantLocked(t, dir, "writing beside a reader in this process")
	testkit.Must(t, first.Close())
	db, err = stoat.Open(dir, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
}

func TestLock_RefusedOpenChangesNothing(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	disk.SetHook(func(op vfs.Op) {
		switch op.Kind {
		case vfs.OpLock, vfs.OpMkdir, vfs.OpSyncDir:
		default:
			t.Errorf("the refused open does %v", op)
		}
	})
	_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.WantError(t, "second open", err, stoat.ErrLocked)
	disk.SetHook(nil)
	testkit.Must(t, db.Close())
}

func TestDirectory_FilesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := filepath.Join(t.TempDir(), "new", "db")
	db, err := stoat.Open(dir, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 1<<20)) }))
	testkit.Must(t, db.Close())
	err = filepath.Walk(filepath.Dir(dir), func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o", path, mode)
		}
		return nil
	})
	testkit.Must(t, err)
}

func TestDirectory_RefusesAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, []byte("not a database"), 0o600))
	db, err := stoat.Open(file, nil)
	if err == nil {
		t.Fatal(errors.Join(errors.New("a file was opened as a database"), db.Close()))
	}
}
