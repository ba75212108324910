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
func TestChild_HasOneArenaUnderAMemoryLimit(t *testing.T) {
	t.Setenv("MALLOC_ARENA_MAX", "")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"{\\\"detail\\\": \\\"arenas $MALLOC_ARENA_MAX\\\"}\" > \"$3\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]string{"": "arenas ", "/sys/fs/cgroup/memory/some": "arenas 1"} {
		result, err := RunJob(context.Background(), program, t.TempDir(), workload.Job{MemoryGroup: group}, time.Minute)
		if err != nil || result.Detail != want {
			t.Errorf("in the group %q: %q, %v, want %q", group, result.Detail, err, want)
		}
	}
}
