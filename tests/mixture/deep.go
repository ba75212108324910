package mixture

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
)

// garbageWait is how long obsolete files may stay. A background job that runs beside the deep
// compaction keeps the files that it reads.
const garbageWait = time.Minute

// deep compacts and collects everything. Later nothing may be left but what reads can show.
func (r *run) deep() error {
	r.release()
	ctx := context.Background()
	if err := r.db.Compact(ctx, stoat.CompactOptions{}); err != nil {
		return err
	}
	if err := r.db.Collect(ctx); err != nil {
		return err
	}
	report, err := r.db.Check(ctx, stoat.CheckOptions{})
	if err != nil {
		return err
	}
	if len(report.Warnings) > 0 {
		return fmt.Errorf("check warns: %q", report.Warnings)
	}
	if err := r.compareEntries(report.Entries); err != nil {
		return err
	}
	return r.noGarbage()
}

// compareEntries compares the number of entries in all tables with what the models need.
func (r *run) compareEntries(entries uint64) error {
	var least, most uint64
	var detail strings.Builder
	for _, s := range r.current() {
		l, m := s.entries(r.now(), r.versionsMax)
		least, most = least+l, most+m
		fmt.Fprintf(&detail, "\n  %v: %d to %d", s, l, m)
	}
	if entries < least || entries > most {
		return fmt.Errorf("after a deep compaction tables have %d entries, want %d to %d:%s", entries, least, most, detail.String())
	}
	return nil
}

// noGarbage demands that no space is left for what is gone. Entries beyond NumVersions of their
// own keyspace count as needed by snapshots, so that only databases with one version each
// must have none (see space.entries).
func (r *run) noGarbage() error {
	st := r.db.Stats()
	for end := time.Now().Add(garbageWait); st.GarbageFiles != 0 && time.Now().Before(end); st = r.db.Stats() {
		time.Sleep(time.Millisecond)
	}
	if st.ValueGarbage != 0 || st.GarbageFiles != 0 || st.SnapshotBytes != 0 && r.versionsMax == 1 {
		return fmt.Errorf("after a deep compaction: %d bytes of garbage in value files, %d obsolete files, %d bytes for snapshots", st.ValueGarbage, st.GarbageFiles, st.SnapshotBytes)
	}
	return nil
}
