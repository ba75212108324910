package device

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestLimits_AreMeasuredAndLeaveNoFiles(t *testing.T) {
	dir := t.TempDir()
	limits, err := Limits(dir, 5*time.Millisecond, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"memory_copy_gb_per_s", "memory_access_ns", "memory_touch_gb_per_s",
		"harness_read_ns", "harness_scan_ns", "harness_keys_ns", "harness_whole_128_ns", "harness_whole_16384_ns"}
	if runtime.GOOS == "linux" {
		want = append(want, "write_buffered_mb_per_s", "rewrite_buffered_mb_per_s", "read_buffered_depth_1_per_s", "read_buffered_depth_32_per_s",
			"sync_append_p50_us", "sync_overwrite_p99_us")
	}
	for _, name := range want {
		if limits[name] <= 0 {
			t.Errorf("%s is %v, want a figure", name, limits[name])
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}
