//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// A signal is for the whole process, so this test does not run in parallel.
func TestSignal_TerminatedCommandIsInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			continue // nohup started the test
		}
		ctx := untilSignal(t.Context())
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		dir := t.TempDir()
		_, errOut, code := stoatCommand(ctx, "", "bench", "-dir", dir, "-keys", "10k")
		if code != exitInterrupted || errOut != "stoat: interrupted\n" {
			t.Errorf("%v: exit code %d, errors %q", sig, code, errOut)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%v: left behind: %v, %v", sig, left, err)
		}
	}
}
