package vfs

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { childTasks["full"] = childFullDisk }

// childFullDisk mounts a small disk in its own mount namespace. It fills the space first
// and then the table of inodes.
func childFullDisk(args []string) error {
	dir := args[0]
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=8"); err != nil {
		fmt.Println("skip", err)
		return nil
	}
	fs := OS()
	f, err := fs.Create(fs.Join(dir, "a"), CatLog)
	if err != nil {
		return err
	}
	n, err := f.WriteAt(make([]byte, 100<<10), 0)
	fmt.Println("write", n, errors.Is(err, ErrNoSpace))
	free, err := fs.Free(dir)
	fmt.Println("free", free, err)
	n, err = f.WriteAt([]byte("still writable"), 4096)
	fmt.Println("rewrite", n, err)
	reserved, err := f.Preallocate(64<<10, 4096)
	fmt.Println("preallocate", reserved, errors.Is(err, ErrNoSpace))
	if err := errors.Join(f.Close(), fs.Remove(fs.Join(dir, "a"))); err != nil {
		return err
	}
	free, err = fs.Free(dir)
	fmt.Println("free", free, err)
	for i := 0; ; i++ {
		f, err := fs.Create(fs.Join(dir, fmt.Sprint(i)), CatTable)
		if err != nil {
			fmt.Println("create", i > 3 && i < 8, errors.Is(err, ErrNoSpace))
			_, err = fs.Lock(fs.Join(dir, "LOCK"))
			fmt.Println("lock", errors.Is(err, ErrNoSpace))
			fmt.Println("mkdir", errors.Is(fs.MkdirAll(fs.Join(dir, "d")), ErrNoSpace))
			return nil
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
}

func TestErrNoSpace_FullDisk(t *testing.T) {
	t.Parallel()
	c := newChild(t, "full", t.TempDir())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: syscall.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: syscall.Getgid(), Size: 1}},
	}
	if err := c.cmd.Start(); err != nil {
		t.Skip("this system does not let its users mount:", err)
	}
	c.cleanUp(t)
	if first, err := c.stdout.Peek(4); err == nil && string(first) == "skip" {
		t.Skip("this system does not let its users mount")
	}
	for _, want := range []string{
		"write 65536 true", "free 0 <nil>", "rewrite 14 <nil>", "preallocate false true",
		"free 65536 <nil>", "create true true", "lock true", "mkdir true",
	} {
		c.wantLine(t, want)
	}
	must(t, c.cmd.Wait())
}
