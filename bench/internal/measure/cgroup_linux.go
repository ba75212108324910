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

// ErrNoMemoryLimit says that this process cannot limit the memory of another.
// The wrapping error says why.
var ErrNoMemoryLimit = errors.New("cannot set a memory limit")

// cgroupRoot is the directory of the control groups: version 2 directly,
// version 1 with a directory per controller.
const cgroupRoot = "/sys/fs/cgroup"

// A MemoryLimit is a control group whose processes share a limited amount of
// memory, cached file pages included.
type MemoryLimit struct {
	dir   string
	kills string // the file that counts the processes killed
}

// NewMemoryLimit creates a control group with that name and limit in bytes. It
// returns ErrNoMemoryLimit if the system or the permissions do not allow that.
func NewMemoryLimit(name string, sizeBytes int64) (*MemoryLimit, error) {
	return newMemoryLimit(cgroupRoot, name, sizeBytes)
}

func newMemoryLimit(root, name string, sizeBytes int64) (*MemoryLimit, error) {
	parent, limit, kills := filepath.Join(root, "memory"), "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(filepath.Join(parent, limit)); err != nil {
		parent, limit, kills = root, "memory.max", "memory.events"
		if err := delegateMemory(root); err != nil {
			return nil, fmt.Errorf("%w: control groups have no memory controller: %w", ErrNoMemoryLimit, err)
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

// delegateMemory enables the memory controller of version 2 for the groups
// below root.
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

// Path returns the argument for JoinMemoryLimit in another process.
func (m *MemoryLimit) Path() string { return m.dir }

// Killed returns whether the system killed a process of the group for lack of
// memory.
func (m *MemoryLimit) Killed() bool {
	text, err := os.ReadFile(filepath.Join(m.dir, m.kills))
	return err == nil && field(text, "oom_kill ") > 0
}

// Close releases the pages charged to the group and removes it. It retries while
// a process that has just ended still belongs to the group.
func (m *MemoryLimit) Close() error {
	var err error
	for range 50 {
		// Version 1 drops the pages on request. Pages that it cannot drop, and
		// all pages of version 2, move to the parent.
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
