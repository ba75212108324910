//go:build linux

package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"github.com/stoatdb/stoat/tests/mount"
)

// A cutKind is a file system whose power can be cut.
type cutKind struct {
	name    string
	mkfs    []string
	fstype  string
	options string
	size    int64 // of the image in bytes, which is sparse
}

var cutKinds = []cutKind{
	{"ext4 ordered", []string{"mkfs.ext4", "-q", "-F"}, "ext4", "data=ordered", 256 << 20},
	{"ext4 writeback", []string{"mkfs.ext4", "-q", "-F"}, "ext4", "data=writeback", 256 << 20},
	{"ext4 journal", []string{"mkfs.ext4", "-q", "-F"}, "ext4", "data=journal", 256 << 20},
	// The least that mkfs.xfs agrees to.
	{"xfs", []string{"mkfs.xfs", "-q", "-f"}, "xfs", "", 320 << 20},
}

// A cutDisk is a file system on a loop device over an image file.
type cutDisk struct {
	kind       cutKind
	image, dir string
	mounted    bool
}

// newCutDisk makes a file system and mounts it in a directory.
func newCutDisk(kind cutKind, below string) (*cutDisk, error) {
	d := &cutDisk{kind: kind, image: filepath.Join(below, "image"), dir: filepath.Join(below, "mounted")}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image, kind.size); err != nil {
		return nil, err
	}
	if err := tool(append(kind.mkfs, d.image)...); err != nil {
		return nil, err
	}
	return d, d.mount()
}

// mount attaches the image to a loop device, which lives as long as the mount,
// and lets the file system replay its journal.
func (d *cutDisk) mount() error {
	options := "loop"
	if d.kind.options != "" {
		options += "," + d.kind.options
	}
	if err := tool("mount", "-t", d.kind.fstype, "-o", options, d.image, d.dir); err != nil {
		return err
	}
	d.mounted = true
	return nil
}

func (d *cutDisk) unmount() error {
	if err := mount.Unmount(d.dir); err != nil {
		return err
	}
	d.mounted = false
	return nil
}

// remove takes the disk away, whatever its state.
func (d *cutDisk) remove() {
	if d.mounted {
		// What is still in use goes away with its last user.
		_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
	}
}

const (
	// shutdownRequest is EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, which are
	// _IOR('X', 125, __u32).
	shutdownRequest = 2<<30 | 4<<16 | 'X'<<8 | 125
	// shutdownLogFlush writes the journal before the end: what the file
	// system knows about its files gets ahead of what is in them.
	shutdownLogFlush = 1
	// shutdownNoLogFlush leaves the journal in memory unwritten.
	shutdownNoLogFlush = 2
)

// cut makes the file system forget what it has not written to the device, and
// fail from then on. What it had written stays, synced or not, in the order in
// which the kernel chose to write.
func (d *cutDisk) cut(flags uint32) error {
	root, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, root.Fd(), shutdownRequest, uintptr(unsafe.Pointer(&flags)))
	if errno != 0 {
		return fmt.Errorf("shut down %s: %w", d.dir, errno)
	}
	return nil
}

// tool runs a program of the system and returns what it complains about.
func tool(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", words, err, out)
	}
	return nil
}

// errNoCuts says that this machine has no file system to cut.
var errNoCuts = errors.New("needs root, loop devices, and ext4 or XFS with their tools")

// tryCutKinds returns the kinds of file system that can be made, mounted, cut
// and mounted again here.
func tryCutKinds(dir string) ([]cutKind, error) {
	if os.Geteuid() != 0 {
		return nil, errNoCuts
	}
	var kinds []cutKind
	reason := errNoCuts
	for i, kind := range cutKinds {
		below := filepath.Join(dir, fmt.Sprint("try", i))
		if err := os.Mkdir(below, 0o700); err != nil {
			return nil, err
		}
		switch err := tryCutKind(kind, below); {
		case err == nil:
			kinds = append(kinds, kind)
		case mount.IsLacking(err):
			reason = fmt.Errorf("%w; %s: %w", reason, kind.name, err)
		default:
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	if len(kinds) == 0 {
		return nil, reason
	}
	return kinds, nil
}

// tryCutKind demands that a power cut takes what was not synced. The kernel may write it just
// before the cut, but not each time.
func tryCutKind(kind cutKind, below string) error {
	d, err := newCutDisk(kind, below)
	if d != nil {
		defer d.remove()
	}
	if err != nil {
		return err
	}
	taken := false
	for try := byte(1); try <= 3 && !taken; try++ {
		if taken, err = d.takesUnsynced(bytes.Repeat([]byte{try}, 10_000)); err != nil {
			return err
		}
	}
	if !taken {
		return errors.Join(errors.New("power cuts take nothing that was not synced"), d.unmount())
	}
	return d.unmount()
}

// takesUnsynced writes a file, cuts the power, and reports whether the file has lost that.
func (d *cutDisk) takesUnsynced(content []byte) (taken bool, err error) {
	path := filepath.Join(d.dir, "unsynced")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return false, err
	}
	if err := errors.Join(d.cut(shutdownNoLogFlush), d.unmount(), d.mount()); err != nil {
		return false, err
	}
	left, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return !bytes.Equal(left, content), err
}
