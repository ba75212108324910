package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoMemoryLimit says that this process may not limit the memory of
// another; the text says why.
var ErrNoMemoryLimit = errors.New("no memory limit possible")

// cgroupMemoryRoot is where version 1 of control groups keeps its memory
// controller.
const cgroupMemoryRoot = "/sys/fs/cgroup/memory"

// A MemoryLimit is a control group whose processes share a limited amount of
// memory, cached file pages included.
type MemoryLimit struct{ dir string }

// NewMemoryLimit makes a control group of that name and size. The error is
// ErrNoMemoryLimit if the system or its permissions do not let it.
func NewMemoryLimit(name string, sizeBytes int64) (*MemoryLimit, error) {
	limits := filepath.Join(cgroupMemoryRoot, "memory.limit_in_bytes")
	if _, err := os.Stat(limits); err != nil {
		return nil, fmt.Errorf("%w: no cgroup v1 memory controller: %w", ErrNoMemoryLimit, err)
	}
	m := &MemoryLimit{dir: filepath.Join(cgroupMemoryRoot, name)}
	if err := os.Mkdir(m.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoMemoryLimit, err)
	}
	if err := m.write("memory.limit_in_bytes", sizeBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrNoMemoryLimit, err), os.Remove(m.dir))
	}
	return m, nil
}

func (m *MemoryLimit) write(file string, value int64) error {
	return os.WriteFile(filepath.Join(m.dir, file), []byte(strconv.FormatInt(value, 10)), 0)
}

// Path names the group for JoinMemoryLimit in another process.
func (m *MemoryLimit) Path() string { return m.dir }

// Killed returns whether a process of the group was killed for want of
// memory.
func (m *MemoryLimit) Killed() bool {
	text, err := os.ReadFile(filepath.Join(m.dir, "memory.oom_control"))
	return err == nil && field(text, "oom_kill ") > 0
}

// Close gives back the pages charged to the group and removes it. A process
// that has just ended may still be on its way out of it.
func (m *MemoryLimit) Close() error {
	var err error
	for range 50 {
		// The pages move to the parent if they cannot be dropped.
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
	if !strings.HasPrefix(path, cgroupMemoryRoot+"/") {
		return fmt.Errorf("%s is not a memory control group", path)
	}
	return (&MemoryLimit{dir: path}).write("cgroup.procs", int64(os.Getpid()))
}
