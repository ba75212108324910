package comparison

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// Only Linux has memory control groups. The program is a script of the shell.
func TestChild_HasOneArenaAndAGoLimitUnderAMemoryLimit(t *testing.T) {
	t.Setenv("MALLOC_ARENA_MAX", "")
	t.Setenv("GOMEMLIMIT", "off")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"{\\\"detail\\\": \\\"arenas $MALLOC_ARENA_MAX, Go $GOMEMLIMIT\\\"}\" > \"$3\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]string{"": "arenas , Go off", "/sys/fs/cgroup/memory/some": "arenas 1, Go 900"} {
		result, err := RunJob(context.Background(), program, t.TempDir(), workload.Job{MemoryGroup: group, MemoryBytes: 1000}, time.Minute)
		if err != nil || result.Detail != want {
			t.Errorf("in the group %q: %q, %v, want %q", group, result.Detail, err, want)
		}
	}
}
