//go:build linux || darwin || freebsd

package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	childTasks["umask"] = childUmask
	childTasks["fsize"] = childFileSizeLimit
	childTasks["files"] = childFileLimit
}

// childUmask creates directories and files under a umask and prints their modes.
func childUmask(args []string) error {
	mask, err := strconv.ParseInt(args[1], 8, 32)
	if err != nil {
		return err
	}
	unix.Umask(int(mask))
	fs := OS()
	dir := fs.Join(args[0], "a", "b")
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	f, err := fs.Create(fs.Join(dir, "file"), CatTable)
	if err != nil {
		return err
	}
	lock, err := fs.Lock(fs.Join(dir, "LOCK"))
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), lock.Close()); err != nil {
		return err
	}
	for _, name := range []string{"a", "a/b", "a/b/file", "a/b/LOCK"} {
		info, err := os.Stat(filepath.Join(args[0], name))
		if err != nil {
			return err
		}
		fmt.Printf("%s %o\n", name, info.Mode().Perm())
	}
	return nil
}

func TestModes_OwnerOnlyAtAnyUmask(t *testing.T) {
	t.Parallel()
	for _, mask := range []string{"0", "077", "0777", "022", "0377"} {
		t.Run(mask, func(t *testing.T) {
			t.Parallel()
			c := startChild(t, "umask", t.TempDir(), mask)
			c.wantLine(t, "a 700")
			c.wantLine(t, "a/b 700")
			c.wantLine(t, "a/b/file 600")
			c.wantLine(t, "a/b/LOCK 600")
			must(t, c.cmd.Wait())
		})
	}
}

// childFileSizeLimit writes beyond the file size limit of its process.
func childFileSizeLimit(args []string) error {
	fs := OS()
	limit := unix.Rlimit{Cur: 8192, Max: 8192}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	f, err := fs.Create(fs.Join(args[0], "file"), CatLog)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(make([]byte, 8192), 0); err != nil {
		return err
	}
	_, errWrite := f.WriteAt([]byte("x"), 8192)
	for _, err := range []error{errWrite, f.Truncate(8193), reserve(f, 0, 8193)} {
		fmt.Println(errors.Is(err, ErrNoSpace))
	}
	size, err := f.Size()
	fmt.Println(size)
	return errors.Join(err, f.Close())
}

func TestFileSizeLimit_IsErrNoSpace(t *testing.T) {
	t.Parallel()
	c := startChild(t, "fsize", t.TempDir())
	for range 3 {
		c.wantLine(t, "true")
	}
	c.wantLine(t, "8192")
	must(t, c.cmd.Wait())
}

// childFileLimit opens files until its process has no descriptors left.
func childFileLimit(args []string) error {
	limit := unix.Rlimit{Cur: 32, Max: 32}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	fs := OS()
	for i := range 64 {
		if _, err := fs.Create(fs.Join(args[0], fmt.Sprint(i)), CatTable); err != nil {
			fmt.Println(errors.Is(err, ErrTooManyFiles), i > 8)
			return nil
		}
	}
	return errors.New("opened 64 files with 32 descriptors")
}

func TestErrTooManyFiles_DescriptorsExhausted(t *testing.T) {
	t.Parallel()
	c := startChild(t, "files", t.TempDir())
	c.wantLine(t, "true true")
	must(t, c.cmd.Wait())
}

func TestOpen_RefusesSymbolicLinks(t *testing.T) {
	t.Parallel()
	fs, dir := OS(), t.TempDir()
	victim := fs.Join(dir, "victim")
	closeFile(t, create(t, fs, victim, "precious"))
	link := fs.Join(dir, "link")
	dangling := fs.Join(dir, "dangling")
	must(t, os.Symlink(victim, link))
	must(t, os.Symlink(fs.Join(dir, "elsewhere"), dangling))
	for _, name := range []string{link, dangling} {
		_, err := fs.Create(name, CatTable)
		wantIs(t, err, ErrExist)
		_, err = fs.Open(name, CatTable)
		wantIs(t, err, ErrPermission)
		_, err = fs.OpenReadWrite(name, CatTable)
		wantIs(t, err, ErrPermission)
		_, err = fs.Lock(name)
		wantIs(t, err, ErrPermission)
	}
	_, err := fs.Stat(fs.Join(dir, "elsewhere"))
	wantIs(t, err, ErrNotExist)
	must(t, fs.Remove(link))
	kept, err := os.ReadFile(victim)
	must(t, err)
	wantContents(t, string(kept), "precious")
}

func TestOpen_FIFODoesNotBlock(t *testing.T) {
	t.Parallel()
	fs := OS()
	name := fs.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(name, 0o600))
	_, err := fs.Open(name, CatTable)
	wantIs(t, err, ErrPermission)
	_, err = fs.OpenReadWrite(name, CatTable)
	wantIs(t, err, ErrPermission)
	_, err = fs.Lock(name)
	wantIs(t, err, ErrPermission)
}

func TestLock_ThroughLinkedDirectoryIsTheSameLock(t *testing.T) {
	t.Parallel()
	fs, dir := OS(), t.TempDir()
	real, linked := fs.Join(dir, "real"), fs.Join(dir, "linked")
	must(t, fs.MkdirAll(real))
	must(t, os.Symlink(real, linked))
	held, err := fs.Lock(fs.Join(real, "LOCK"))
	must(t, err)
	_, err = fs.Lock(fs.Join(linked, "LOCK"))
	wantIs(t, err, ErrLocked)
	closeFile(t, held)
	must(t, fs.MkdirAll(linked)) // a link to a directory counts as a directory
}

func TestLock_OfTheFileWithoutThatOfTheDirectory(t *testing.T) {
	t.Parallel()
	fs, dir := OS(), t.TempDir()
	file := fs.Join(dir, "LOCK")
	fd, err := lockDir(fs.Join(dir, "gone"), unix.LOCK_EX)
	if fd != notLocked || err != nil {
		t.Fatalf("got descriptor %d, error %v", fd, err)
	}
	fd, err = lockFile(file, openLockFile, unix.LOCK_EX)
	must(t, err)
	held := &lock{dir: notLocked, file: fd}
	_, err = fs.Lock(file)
	wantIs(t, err, ErrLocked)
	closeFile(t, held)
	wantIs(t, held.Close(), ErrClosed)
	again, err := fs.Lock(file)
	must(t, err)
	closeFile(t, again)
}

// TestClose_DuringUseNeverHitsAnotherFile closes files while other goroutines write to
// them, and opens new files that reuse the descriptor numbers.
func TestClose_DuringUseNeverHitsAnotherFile(t *testing.T) {
	t.Parallel()
	fs, dir := OS(), t.TempDir()
	for i := range 100 {
		f := create(t, fs, fs.Join(dir, fmt.Sprint("victim", i)), "")
		started, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; ; n++ {
				if n == 1 {
					close(started)
				}
				if _, err := f.WriteAt([]byte("written to the closed file"), 0); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}()
		<-started
		must(t, f.Close())
		next := create(t, fs, fs.Join(dir, fmt.Sprint("next", i)), "mine")
		<-done
		wantContents(t, contents(t, next), "mine")
		closeFile(t, next)
	}
}

// TestClose_LastUserClosesTheDescriptor does not run in parallel because it counts descriptors.
func TestClose_LastUserClosesTheDescriptor(t *testing.T) {
	before := openDescriptors(t)
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), "x").(*osFile)
	if !f.acquire() {
		t.Fatal("the file is closed")
	}
	must(t, f.Close())
	if got := openDescriptors(t); got != before+1 {
		t.Fatalf("%d descriptors are open while the file is in use, want %d", got, before+1)
	}
	f.release()
	if got := openDescriptors(t); got != before {
		t.Fatalf("%d descriptors are open, %d were before", got, before)
	}
}

func TestDescriptors_AreNotLeaked(t *testing.T) {
	fs, dir := OS(), t.TempDir()
	before := openDescriptors(t)
	for i := range 50 {
		name := fs.Join(dir, fmt.Sprint(i))
		f := create(t, fs, name, "contents")
		m, err := f.Map(8)
		must(t, err)
		closeFile(t, f)
		must(t, populateOf(m)(0, 8))
		closeFile(t, m)
		held, err := fs.Lock(name)
		must(t, err)
		_, err = fs.Lock(name)
		wantIs(t, err, ErrLocked)
		closeFile(t, held)
		_, err = fs.Open(dir, CatTable)
		wantError(t, "open a directory", err)
		must(t, fs.SyncDir(dir))
		must(t, fs.MkdirAll(fs.Join(dir, "sub", fmt.Sprint(i))))
	}
	if after := openDescriptors(t); after > before {
		t.Fatalf("%d descriptors are open, %d were before", after, before)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip("this system does not show descriptors")
	}
	n := 0
	for _, name := range names {
		// The runtime may open the descriptors of its poller at any time.
		target, _ := os.Readlink("/dev/fd/" + name.Name())
		if !strings.HasPrefix(target, "anon_inode:") {
			n++
		}
	}
	return n
}

func TestWrapError_FindsTheClassOfAnErrno(t *testing.T) {
	t.Parallel()
	for errno, want := range map[unix.Errno]error{
		unix.ENOENT: ErrNotExist, unix.EEXIST: ErrExist, unix.ENOSPC: ErrNoSpace, unix.EDQUOT: ErrNoSpace,
		unix.EIO: ErrIO, unix.EACCES: ErrPermission, unix.EROFS: ErrReadOnly, unix.EMFILE: ErrTooManyFiles,
	} {
		err := WrapError(OpWrite, "a", fmt.Errorf("cause: %w", errno))
		wantIs(t, err, want)
		wantIs(t, err, errno)
		if again := WrapError(OpRead, "b", err); again != err {
			t.Errorf("a second operation and path were added: %v", again)
		}
	}
	if err := WrapError(OpRead, "a", io.EOF); err != io.EOF {
		t.Errorf("io.EOF became %v", err)
	}
}
