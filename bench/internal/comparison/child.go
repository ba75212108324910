package comparison

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoatdb/stoat/bench/internal/device"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// ChildCommand is the first argument of a child process. The second is the file
// with its task, the third the file for its answer.
const ChildCommand = "_job"

// The files between parent and child, in the directory of the databases.
const (
	taskName   = "task.json"
	answerName = "answer.json"
)

// A task tells a child what to measure: a job, or the limits of the machine.
type task struct {
	Job    *workload.Job `json:"job,omitempty"`
	Limits *limitsTask   `json:"limits,omitempty"`
}

type limitsTask struct {
	Dir       string        `json:"dir"`
	Length    time.Duration `json:"length"`
	SizeBytes int64         `json:"size_bytes"`
}

// RunChild is the main function of a child process.
func RunChild(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: got %d arguments, want 2", ChildCommand, len(args))
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var t task
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	var answer any
	switch {
	case t.Job != nil:
		answer = workload.Execute(*t.Job)
	case t.Limits != nil:
		answer, err = device.Limits(t.Limits.Dir, t.Limits.Length, t.Limits.SizeBytes)
	default:
		err = fmt.Errorf("%s: the task is neither a job nor the limits", args[0])
	}
	if err != nil {
		return err
	}
	if text, err = json.Marshal(answer); err != nil {
		return err
	}
	return os.WriteFile(args[1], text, 0o600)
}

// errTimeout says that the parent ended the child.
var errTimeout = errors.New("took too long")

// A death is the error of a child that ended without an answer.
type death struct {
	err    error
	killed bool   // SIGKILL ended the child
	output string // the first and last part of the child's output
}

func (d *death) Error() string {
	text := d.err.Error()
	if d.output != "" {
		text += ": " + d.output
	}
	return text
}

func (d *death) Unwrap() error { return d.err }

// runChild runs task t in a child process of this program within limit, and
// decodes the answer.
func runChild(ctx context.Context, dir string, t task, limit time.Duration, answer any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return runProgram(ctx, self, dir, t, limit, answer)
}

// RunJob runs a job in a child process of another build of this program. A
// failure of the store is part of the result.
func RunJob(ctx context.Context, program, dir string, job workload.Job, limit time.Duration) (workload.Result, error) {
	result := workload.Result{Job: job, Began: time.Now()}
	err := runProgram(ctx, program, dir, task{Job: &job}, limit, &result)
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	if err != nil {
		result.Status, result.Detail = judge(err), err.Error()
	}
	return result, nil
}

func runProgram(ctx context.Context, program, dir string, t task, limit time.Duration, answer any) error {
	taskFile, answerFile := filepath.Join(dir, taskName), filepath.Join(dir, answerName)
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.WriteFile(taskFile, text, 0o600); err != nil {
		return err
	}
	if err := os.Remove(answerFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	var output tail
	cmd := exec.CommandContext(ctx, program, ChildCommand, taskFile, answerFile)
	cmd.Stdout, cmd.Stderr = &output, &output
	if t.Job != nil && t.Job.MemoryGroup != "" {
		cmd.Env = append(os.Environ(), oneArena, goLimit(t.Job.MemoryBytes))
	}
	// A grandchild may keep the pipe open. Do not wait for it.
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &death{err: err, killed: killedBySystem(cmd.ProcessState), output: output.String()}
	}
	if text, err = os.ReadFile(answerFile); err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// oneArena lets the allocator of C use one arena for all threads. Each arena keeps what its
// threads free, so with many the caches of Pebble and RocksDB take twice their size. Under a
// memory limit the system then kills both.
const oneArena = "MALLOC_ARENA_MAX=1"

// goLimit lets the collector of Go keep the memory of the runtime below nine tenths of a
// memory limit. Otherwise the heap may grow to twice what is live, so a store with a cache on
// the heap would need more than the limit.
func goLimit(memoryBytes int64) string { return fmt.Sprintf("GOMEMLIMIT=%d", memoryBytes/10*9) }

// killedBySystem returns whether SIGKILL ended the process. The caller has ruled
// out that the parent sent it.
func killedBySystem(state *os.ProcessState) bool {
	return state != nil && strings.Contains(state.String(), "signal: killed")
}

// A tail keeps the first and the last part of a child's output. The first lines
// of a crash have its reason.
type tail struct{ head, end bytes.Buffer }

// tailBytes is the size in bytes of each part.
const tailBytes = 1500

func (t *tail) Write(p []byte) (int, error) {
	n := min(len(p), tailBytes-t.head.Len())
	t.head.Write(p[:n])
	t.end.Write(p[n:])
	if extra := t.end.Len() - tailBytes; extra > 0 {
		t.end.Next(extra)
	}
	return len(p), nil
}

func (t *tail) String() string {
	text := t.head.String()
	if t.end.Len() > 0 {
		text += " […] " + t.end.String()
	}
	return strings.TrimSpace(text)
}
