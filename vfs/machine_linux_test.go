package vfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMachineMemory_IsWithinTheMachine(t *testing.T) {
	t.Parallel()
	m, err := ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	if m.Total <= 0 || m.Available < 0 || m.Available > m.Total {
		t.Fatalf("%+v", m)
	}
}

func TestMachineMemory_GroupsOfTheProcessAndAroundIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0::/user/app\n": "/sys/fs/cgroup/user/app memory.max, /sys/fs/cgroup/user memory.max, /sys/fs/cgroup/ memory.max",
		"12:cpu:/x\n5:memory:/job\n0::/\n": "/sys/fs/cgroup/memory/job memory.limit_in_bytes, " +
			"/sys/fs/cgroup/memory/ memory.limit_in_bytes, /sys/fs/cgroup/ memory.max",
		"garbage\n1:2\n":    "",
		"0::/../../other\n": "/sys/fs/cgroup/other memory.max, /sys/fs/cgroup/ memory.max",
	} {
		var got []string
		for _, g := range memoryGroups(text) {
			got = append(got, g.dir+" "+g.limit)
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%q: got %q, want %q", text, s, want)
		}
	}
}

func TestMachineMemory_GroupLimitLessUnreclaimableUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, usage, stat string
		want               MachineMemory
		ok                 bool
	}{
		{"1000\n", "700\n", "anon 300\nactive_file 150\ninactive_file 250\n", MachineMemory{1000, 700}, true},
		{"1000\n", "1200\n", "", MachineMemory{1000, 0}, true},
		{"max\n", "700\n", "", MachineMemory{}, false},
		{"9223372036854771712\n", "700\n", "", MachineMemory{}, false},
		{"1000\n", "none\n", "", MachineMemory{}, false},
		{"-1\n", "700\n", "", MachineMemory{}, false},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"memory.max": c.limit, "memory.current": c.usage, "memory.stat": c.stat} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := memoryGroup{dir: dir, limit: "memory.max", usage: "memory.current", activeFile: "active_file ", idleFile: "inactive_file "}
		if m, ok := readMemoryGroup(g); m != c.want || ok != c.ok {
			t.Errorf("limit %q, usage %q, stat %q: got %+v %v, want %+v %v", c.limit, c.usage, c.stat, m, ok, c.want, c.ok)
		}
	}
}
