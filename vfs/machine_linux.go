package vfs

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// ReadMachineMemory returns the memory of the machine, or that of the control
// group of the process, or of one around it, whichever has the least left.
func ReadMachineMemory() (MachineMemory, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return MachineMemory{}, err
	}
	least := MachineMemory{Total: kilobytes(string(info), "MemTotal:"), Available: kilobytes(string(info), "MemAvailable:")}
	if least.Total <= 0 {
		return MachineMemory{}, fmt.Errorf("vfs: /proc/meminfo without MemTotal: %w", ErrUnsupported)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return least, nil // a kernel without control groups has no limits
	}
	for _, g := range memoryGroups(string(groups)) {
		if m, ok := readMemoryGroup(g); ok && m.Total < least.Total {
			least.Total = m.Total
			least.Available = min(least.Available, m.Available)
		}
	}
	return least, nil
}

// field returns what follows a name at the start of a line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// kilobytes returns a size of /proc/meminfo in bytes, 0 if it is not there.
func kilobytes(text, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(field(text, name), " kB"), 10, 64)
	if err != nil || n > 1<<50 {
		return 0
	}
	return n << 10
}

// A memoryGroup is the directory of a control group and the names of its files,
// which changed between the two versions.
type memoryGroup struct {
	dir                                string
	limit, usage, activeFile, idleFile string
}

// memoryGroups returns the control groups that may limit the memory of the
// process, by what /proc/self/cgroup says. A limit counts for all groups
// within. In a container the path may be that outside of it, so that only the
// root of the mount is there.
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

// readMemoryGroup returns the memory of a group, or false if it has no limit.
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

// readSize reads a file with a number of bytes. One without a limit, which has
// a word or a number beyond all sizes, does not count.
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
