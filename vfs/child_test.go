package vfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Some tests need a child process, to hold a lock and die or to change a property of
// the process. They run the test binary again with the name of a task in the
// environment.

const childEnv = "STOAT_VFS_CHILD"

// childTasks are the tasks of child processes by their names. args follow the name in
// the environment. The parent reads what the task prints.
var childTasks = map[string]func(args []string) error{
	"lock":        func(args []string) error { return childLock(OS().Lock(args[0])) },
	"shared lock": func(args []string) error { return childLock(OS().LockShared(args[0])) },
}

func TestMain(m *testing.M) {
	words := strings.Split(os.Getenv(childEnv), "\n")
	if task, ok := childTasks[words[0]]; ok {
		if err := task(words[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childLock prints that it holds a lock, and holds it until its input ends or the parent
// kills it.
func childLock(held io.Closer, err error) error {
	if err != nil {
		return err
	}
	fmt.Println("locked")
	_, _ = io.ReadAll(os.Stdin) // wait for the end of the input
	return held.Close()
}

// A child is a child process that runs a task.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// newChild prepares a child without starting it.
func newChild(t *testing.T, words ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(words, "\n"))
	c.stdin, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.cmd.Stderr = os.Stderr
	c.stdout = bufio.NewReader(out)
	return c
}

func startChild(t *testing.T, words ...string) *child {
	t.Helper()
	c := newChild(t, words...)
	must(t, c.cmd.Start())
	c.cleanUp(t)
	return c
}

// cleanUp kills the child at the end of the test.
func (c *child) cleanUp(t *testing.T) {
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // fails if the child has ended
		_ = c.cmd.Wait()
	})
}

func (c *child) wantLine(t *testing.T, want string) {
	t.Helper()
	line, err := c.stdout.ReadString('\n')
	if got := strings.TrimSpace(line); got != want {
		t.Fatalf("child said %q (%v), want %q", got, err, want)
	}
}

func TestLock_ExcludesOtherProcess(t *testing.T) {
	t.Parallel()
	fs, name := OS(), OS().Join(t.TempDir(), "LOCK")
	c := startChild(t, "lock", name)
	c.wantLine(t, "locked")
	_, err := fs.Lock(name)
	wantIs(t, err, ErrLocked)
	must(t, c.stdin.Close())
	must(t, c.cmd.Wait())
	held, err := fs.Lock(name)
	must(t, err)
	refused := startChild(t, "lock", name)
	refused.wantLine(t, "error: lock "+name+": "+ErrLocked.Error())
	closeFile(t, held)
}

func TestLock_SharedWithOtherProcesses(t *testing.T) {
	t.Parallel()
	fs, name := OS(), OS().Join(t.TempDir(), "LOCK")
	held, err := fs.Lock(name)
	must(t, err)
	refused := startChild(t, "shared lock", name)
	refused.wantLine(t, "error: lock shared "+name+": "+ErrLocked.Error())
	closeFile(t, held)
	c := startChild(t, "shared lock", name)
	c.wantLine(t, "locked")
	held, err = fs.LockShared(name)
	must(t, err)
	_, err = fs.Lock(name)
	wantIs(t, err, ErrLocked)
	closeFile(t, held)
	_, err = fs.Lock(name)
	wantIs(t, err, ErrLocked)
	must(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait() // reports the kill
	held, err = fs.Lock(name)
	must(t, err)
	closeFile(t, held)
}

func TestLock_EndsWhenHolderIsKilled(t *testing.T) {
	t.Parallel()
	fs, name := OS(), OS().Join(t.TempDir(), "LOCK")
	c := startChild(t, "lock", name)
	c.wantLine(t, "locked")
	must(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait() // reports the kill
	held, err := fs.Lock(name)
	must(t, err)
	closeFile(t, held)
}
