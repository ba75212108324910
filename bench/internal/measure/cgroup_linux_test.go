package measure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// writeFiles writes files below dir, by their paths.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemoryLimit_EitherVersionOfControlGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system map[string]string // before
		group  string
		limit  string
		kills  map[string]string // of the group, after a process was killed
		want   map[string]string // of the system, after
	}{
		"version 1": {
			map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712"}, "memory/g", "memory.limit_in_bytes",
			map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"}, nil,
		},
		"version 2, which has to be asked": {
			map[string]string{"cgroup.subtree_control": "cpu pids\n"}, "g", "memory.max",
			map[string]string{"memory.events": "oom 1\noom_kill 1\noom_group_kill 0\n"},
			map[string]string{"cgroup.subtree_control": "+memory"},
		},
		"version 2": {
			map[string]string{"cgroup.subtree_control": "cpu memory\n"}, "g", "memory.max",
			map[string]string{"memory.events": "oom 1\noom_kill 1\n"},
			map[string]string{"cgroup.subtree_control": "cpu memory\n"},
		},
	} {
		root := t.TempDir()
		writeFiles(t, root, c.system)
		m, err := newMemoryLimit(root, "g", 1<<30)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Killed() {
			t.Errorf("%s: a killed process is reported", name)
		}
		writeFiles(t, m.Path(), c.kills)
		if !m.Killed() {
			t.Errorf("%s: a killed process is not reported", name)
		}
		wants := map[string]string{filepath.Join(c.group, c.limit): "1073741824"}
		for file, text := range c.want {
			wants[file] = text
		}
		for file, want := range wants {
			if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(got) != want {
				t.Errorf("%s: %s has %q, %v, want %q", name, file, got, err, want)
			}
		}
	}
}

func TestMemoryLimit_SystemWithoutControlGroups(t *testing.T) {
	t.Parallel()
	if _, err := newMemoryLimit(t.TempDir(), "g", 1<<30); !errors.Is(err, ErrNoMemoryLimit) {
		t.Errorf("%v, want ErrNoMemoryLimit", err)
	}
}
