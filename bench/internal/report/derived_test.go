package report

import (
	"math"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

func TestDerived_FollowFromTheMetricsOfOlderRecords(t *testing.T) {
	t.Parallel()
	rec := record(
		// 4 M operations in 8 s and 12 s more.
		result("stoat", "limited-load", "limited", workload.OK, map[string]float64{"load_keys_per_s": 500e3, "load_s": 8, "settle_s": 12}),
		result("stoat", "churn", "1k", workload.OK, map[string]float64{"write_s": 14, "settle_s": 2, "collect_s": 5}),
		// 100 MB of the user, 200 MB written during the load and 50 MB after it.
		result("stoat", "populate", "1k", workload.OK, map[string]float64{
			"load_mb_per_s": 50, "load_s": 2, "load_written_mb": 200, "settled_process_written_mb": 250,
		}),
	)
	for row, want := range map[reasonKey]float64{
		{"limited-load", "settled_keys_per_s", "limited"}:      200,
		{"churn", "written_settled_s", "1k"}:                   16,
		{"populate", "after_load_written_per_user_byte", "1k"}: 0.5,
	} {
		if got := oursOf(lineOf(t, rec, row.workload, row.data, row.metric)).Median; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", row.metric, got, want)
		}
	}
}

func TestDerived_NeedAllTheirMetrics(t *testing.T) {
	t.Parallel()
	if v, ok := metricOf("churn", map[string]float64{"write_s": 14}, "written_settled_s"); ok {
		t.Errorf("%v without the time until it was settled", v)
	}
}

func TestDerived_EachIsARow(t *testing.T) {
	t.Parallel()
	rows := map[metricKey]bool{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			rows[metricKey{row.Workload, row.Metric}] = true
		}
	}
	for key := range derivations {
		if !rows[key] {
			t.Errorf("%+v is derived and no row", key)
		}
	}
}
