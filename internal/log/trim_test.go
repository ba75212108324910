package log

import "testing"

func TestTrim_DeletesPreparedSegments(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.o.Go = func(job func()) { job() }
	d.open()
	prepared := func() int {
		d.w.mu.Lock()
		defer d.w.mu.Unlock()
		return len(d.w.mu.next)
	}
	for prepared() == 0 {
		d.append()
		must(t, d.w.Flush())
		d.w.SyncAhead()
	}
	must(t, d.w.Trim())
	if n := prepared(); n != 0 {
		t.Errorf("%d segments stay prepared", n)
	}
	names, err := d.disk.List(d.o.Dir)
	must(t, err)
	s := d.w.Stats()
	if known := s.Segments + s.FreeFiles; len(names) != known || s.FreeFiles > 1 {
		t.Errorf("there are %d files; the log knows %d, of which %d are free", len(names), known, s.FreeFiles)
	}
	for range 100 { // the log goes on
		d.append()
		must(t, d.w.Flush())
	}
}
