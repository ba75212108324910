package bench

import "testing"

func TestFootprint_IsParsedFromTheStatusOfTheProcess(t *testing.T) {
	t.Parallel()
	got, ok := parseFootprint("Name:\tstoat\nVmRSS:\t  300 kB\nRssAnon:\t     100 kB\nRssFile:\t     200 kB\nThreads:\t9\n")
	if want := (footprint{anonymous: 100 << 10, mapped: 200 << 10}); !ok || got != want {
		t.Errorf("got %+v, %t, want %+v", got, ok, want)
	}
	if _, ok := parseFootprint("Name:\tstoat\nVmRSS:\t300 kB\n"); ok {
		t.Error("a status without the lines passed")
	}
}

func TestMemoryWatch_KeepsThePeak(t *testing.T) {
	t.Parallel()
	m := watchMemory()
	if m == nil {
		t.Skip("this system does not tell")
	}
	defer m.stop()
	before := m.peak()
	if before.anonymous <= 0 {
		t.Fatalf("the footprint is %+v", before)
	}
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	with := m.peak()
	if with.anonymous < before.anonymous+32<<20 && block[0] == 1 {
		t.Errorf("64 MiB more raised the peak from %d to %d", before.anonymous, with.anonymous)
	}
	if after := m.peak(); after.anonymous < with.anonymous {
		t.Errorf("the peak fell from %d to %d", with.anonymous, after.anonymous)
	}
}
