package report

import (
	"math"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// grown returns results of a store whose written bytes grow with the logarithm
// of the keys, and whose reads take the same time.
func grown(store, series string) []workload.Result {
	var all []workload.Result
	for _, d := range workload.Datasets {
		if d.Growth && d.Series() == series {
			all = append(all, result(store, "scale", d.Name, workload.OK, map[string]float64{
				"settled_written_per_user_byte": math.Log2(float64(d.Count)) - 17, "get_1_ns": 500, "load_keys_per_s": 5e5,
			}))
		}
	}
	return all
}

func TestGrowth_ProjectsTheSizesThatNoRunReaches(t *testing.T) {
	t.Parallel()
	rec := record(append(grown("stoat", "128"), grown("pebble", "16k")...)...)
	rec.Settings.Machine.Memory = "24414062 kB" // 25 GB, of 37.5 GB and 300 GB
	rec.Limits[0].Values["read_direct_depth_1_per_s"] = 1e4
	var out strings.Builder
	if err := Markdown(&out, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 128 B |  | 1 M | 2 M | 5 M | 10 M | 20 M | 50 M | law | off by | at 250 M | at 2 G |",
		"| bytes written per user byte, settled | stoat | 2.93 | 3.93 | 5.25 | 6.25 | 7.25 | 8.58 | logarithm | 1.00 × | 10.9 (10.9 to 10.9) | 13.9 (13.9 to 13.9) |",
		"| load, k keys/s | stoat | 500 | 500 | 500 | 500 | 500 | 500 | constant | 1.00 × | 500 (500 to 500) | 500 (500 to 500) |",
		"| get, 1 goroutine, ns | stoat | 500 | 500 | 500 | 500 | 500 | 500 | constant | 1.00 × | at least 33,833 | at least 92,167 |",
		"| 16 KiB |  | 50 k | 100 k | 200 k | 400 k | law | off by | at 5 M |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "| 1 KiB |  | ") {
		t.Error("the report has a series without points")
	}
}

func TestGrowth_ProjectsKeysOfTheScaleOfTheRun(t *testing.T) {
	t.Parallel()
	// At half the scale, one byte more for each doubling from 500,000 keys on.
	var all []workload.Result
	for _, d := range workload.Datasets {
		if d.Growth && d.Series() == "128" {
			written := 2 + math.Log2(float64(d.Scaled(0.5))/5e5)
			all = append(all, result("stoat", "scale", d.Name, workload.OK, map[string]float64{"settled_written_per_user_byte": written}))
		}
	}
	rec := record(all...)
	rec.Settings.Scale = 0.5
	text := markdownOf(t, rec)
	for _, want := range []string{
		"| 128 B |  | 500 k | 1 M | 2.5 M | 5 M | 10 M | 25 M | law | off by | at 250 M | at 2 G |",
		"| bytes written per user byte, settled | stoat | 2.00 | 3.00 | 4.32 | 5.32 | 6.32 | 7.64 | logarithm | 1.00 × | 11.0 (11.0 to 11.0) | 14.0 (14.0 to 14.0) |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

func TestGrowth_AFewPointsHaveNoLaw(t *testing.T) {
	t.Parallel()
	if text := beyondMemory(growthRow{factor: 1}, 500, 0.5); text != "exceeds memory" {
		t.Errorf("without a device: %q", text)
	}
	texts := modelTexts(growthRow{}, projected["128"], 1, 1)
	if len(texts) != 4 || strings.Join(texts, "") != "––––" {
		t.Errorf("%q, want no law", texts)
	}
}

func TestGrowth_EveryProjectionHasASeries(t *testing.T) {
	t.Parallel()
	for _, series := range growthSeries {
		points := 0
		for _, d := range workload.Datasets {
			if d.Growth && d.Series() == series {
				points++
			}
		}
		if points < 4 || len(projected[series]) == 0 {
			t.Errorf("%s has %d points and the projections %v", series, points, projected[series])
		}
	}
}
