package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestIdle_QuietDirectoryAndProcess(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	if isBusy(Usage{Known: true}, interval) || isBusy(Usage{Known: true, CPUSeconds: 0.001}, interval) {
		t.Error("an almost idle process is reported as busy")
	}
	for _, used := range []Usage{{Known: true, WrittenBytes: 1}, {Known: true, WrittenBytes: -4096}, {Known: true, CPUSeconds: 0.05}} {
		if !isBusy(used, interval) {
			t.Errorf("%+v is reported as idle", used)
		}
	}
}

func TestIdle_ChangingDirectoryIsNotSettled(t *testing.T) {
	dir := t.TempDir()
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			case <-tick.C:
				if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, n), 0o600); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	_, quiet := WaitIdle(dir, 250*time.Millisecond, time.Second)
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if quiet {
		t.Error("a directory whose file grows is said to stand still")
	}
}
