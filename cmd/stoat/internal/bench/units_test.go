package bench

import (
	"testing"
	"time"
)

func TestUnits_Formats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{duration(0), "0.00 ns"},
		{duration(312.4), "312 ns"},
		{duration(999.6), "1.00 µs"},
		{duration(45_678), "45.7 µs"},
		{duration(2e9), "2.00 s"},
		{duration(5e12), "5000 s"},
		{size(0), "0.00 B"},
		{size(262_144), "262 kB"},
		{perSecond(1_500_000, time.Second), "1.50 M/s"},
		{perSecond(10, 2*time.Second), "5.00 /s"},
		{count(0), "0"},
		{count(999), "999"},
		{count(1000), "1,000"},
		{count(1234567), "1,234,567"},
		{many(1, "goroutine"), "1 goroutine"},
		{many(16, "goroutine"), "16 goroutines"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
