package bits

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestSalvage_CopiesAnIntactDatabase(t *testing.T) {
	t.Parallel()
	for _, img := range Images(t) {
		for _, ignore := range []bool{false, true} {
			t.Run(img.name, func(t *testing.T) {
				disk := img.disk.Clone()
				report, _, err := img.salvage(disk, stoat.SalvageOptions{IgnoreManifest: ignore})
				testkit.Must(t, err)
				if len(report.Lost) > 0 || report.Manifest == ignore {
					t.Errorf("report of an intact database: %+v", report)
				}
				t.Logf("%+v", report)
			})
		}
	}
}
