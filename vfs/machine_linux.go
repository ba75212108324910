package vfs

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// ReadMachineMemory returns the memory of the machine, or the limit of the control
// group of the process or of an enclosing group, whichever is smallest.
func ReadMachineMemory() (MachineMemory, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return MachineMemory{}, err
	}
	least := MachineMemory{Total: kilobytes(string(info), "MemTotal:"), Available: kilobytes(string(info), "MemAvailable:")}
	if least.Total <= 0 {
		return MachineMemory{}, fmt.Errorf("vfs: /proc/meminfo has no MemTotal: %w", ErrUnsupported)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return least, nil // the kernel has no control groups, and so no limits
	}
	for _, g := range memoryGroups(string(groups)) {
		if m, ok := readMemoryGroup(g); ok && m.Total < least.Total {
			least.Total = m.Total
			least.Available = min(least.Available, m.Available)
		}
	}
	return least, nil
}

// field returns the rest of the line that starts with name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// kilobytes returns a size from /proc/meminfo in bytes, or 0 if it is missing.
func kilobytes(text, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(field(text, name), " kB"), 10, 64)
	if err != nil || n > 1<<50 {
		return 0
	}
	return n << 10
}

// A memoryGroup is the directory of a control group and the names of its files, which
// differ between versions 1 and 2 of control groups.
type memoryGroup struct {
	dir                                string
	limit, usage, activeFile, idleFile string
}

// memoryGroups returns the control groups that can limit the memory of the process.
// text is the content of /proc/self/cgroup. A limit of a group also applies to the
// groups within it. In a container, text may name a path on the host, of which only
// the root exists inside the container.
func memoryGroups(text string) (groups []memoryGroup) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		g := memoryGroup{limit: "memory.max", usage: "memory.current", activeFile: "active_file ", idleFile: "inactive_file "}
		root := "/sys/fs/cgroup"
		switch {
		case parts[0] == "0" && parts[1] == "":
		case parts[1] == "memory":
			root += "/memory"
			g = memoryGroup{limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes",
				activeFile: "total_active_file ", idleFile: "total_inactive_file "}
		default:
			continue
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			g.dir = root + at
			groups = append(groups, g)
			if at == "/" {
				break
			}
		}
	}
	return groups
}

// readMemoryGroup returns the memory of a group. It returns false for a group without
// a limit.
func readMemoryGroup(g memoryGroup) (MachineMemory, bool) {
	limit, ok := readSize(path.Join(g.dir, g.limit))
	if !ok {
		return MachineMemory{}, false
	}
	usage, ok := readSize(path.Join(g.dir, g.usage))
	stat, err := os.ReadFile(path.Join(g.dir, "memory.stat"))
	if !ok || err != nil {
		return MachineMemory{}, false
	}
	files := parseSize(field(string(stat), g.activeFile)) + parseSize(field(string(stat), g.idleFile))
	return MachineMemory{Total: limit, Available: max(0, limit-usage+files)}, true
}

// readSize reads a number of bytes from a file. It returns false if the file holds no
// limit: a word, or a number of 1<<60 or more.
func readSize(name string) (int64, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n >= 0 && n < 1<<60
}

func parseSize(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
