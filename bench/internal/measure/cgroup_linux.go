package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoMemoryLimit says that this process may not limit the memory of
// another; the text says why.
var ErrNoMemoryLimit = errors.New("no memory limit possible")

// cgroupRoot is where the system shows its control groups: version 2 right
// there, version 1 in a directory for each controller.
const cgroupRoot = "/sys/fs/cgroup"

// A MemoryLimit is a control group whose processes share a limited amount of
// memory, cached file pages included.
type MemoryLimit struct {
	dir   string
	kills string // the file that counts the processes killed
}

// NewMemoryLimit makes a control group of that name and size. The error is
// ErrNoMemoryLimit if the system or its permissions do not let it.
func NewMemoryLimit(name string, sizeBytes int64) (*MemoryLimit, error) {
	return newMemoryLimit(cgroupRoot, name, sizeBytes)
}

func newMemoryLimit(root, name string, sizeBytes int64) (*MemoryLimit, error) {
	parent, limit, kills := filepath.Join(root, "memory"), "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(filepath.Join(parent, limit)); err != nil {
		parent, limit, kills = root, "memory.max", "memory.events"
		if err := delegateMemory(root); err != nil {
			return nil, fmt.Errorf("%w: no memory controller of control groups: %w", ErrNoMemoryLimit, err)
		}
	}
	m := &MemoryLimit{dir: filepath.Join(parent, name), kills: kills}
	if err := os.Mkdir(m.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoMemoryLimit, err)
	}
	if err := m.write(limit, sizeBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrNoMemoryLimit, err), os.Remove(m.dir))
	}
	return m, nil
}

// delegateMemory has version 2 give the groups below root a memory controller.
func delegateMemory(root string) error {
	control := filepath.Join(root, "cgroup.subtree_control")
	given, err := os.ReadFile(control)
	if err != nil || slices.Contains(strings.Fields(string(given)), "memory") {
		return err
	}
	return os.WriteFile(control, []byte("+memory"), 0o600)
}

func (m *MemoryLimit) write(file string, value int64) error {
	return os.WriteFile(filepath.Join(m.dir, file), []byte(strconv.FormatInt(value, 10)), 0o600)
}

// Path names the group for JoinMemoryLimit in another process.
func (m *MemoryLimit) Path() string { return m.dir }

// Killed returns whether a process of the group was killed for want of
// memory.
func (m *MemoryLimit) Killed() bool {
	text, err := os.ReadFile(filepath.Join(m.dir, m.kills))
	return err == nil && field(text, "oom_kill ") > 0
}

// Close gives back the pages charged to the group and removes it. A process
// that has just ended may still be on its way out of it.
func (m *MemoryLimit) Close() error {
	var err error
	for range 50 {
		// Version 1 is told to drop the pages; what cannot be dropped, and all
		// of version 2, moves to the parent.
		_ = m.write("memory.force_empty", 0)
		if err = os.Remove(m.dir); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// JoinMemoryLimit puts this process into the group at path.
func JoinMemoryLimit(path string) error {
	if !strings.HasPrefix(path, cgroupRoot+"/") {
		return fmt.Errorf("%s is not a memory control group", path)
	}
	return (&MemoryLimit{dir: path}).write("cgroup.procs", int64(os.Getpid()))
}
