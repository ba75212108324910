package bits

import (
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A wrong bit of KEYS, or of the footer of a sealed file, would lose the database or the
// file.
func TestSalvage_CorrectsOneBitOfKeysAndFooters(t *testing.T) {
	t.Parallel()
	for _, img := range salvageImages(t) {
		if img.keys == nil {
			continue
		}
		for file, path := range img.files {
			step, from := int64(testkit.Raced(5, 47)), int64(0)
			switch {
			case strings.HasSuffix(path, "KEYS"):
			case strings.HasSuffix(path, ".table"):
				from = img.sizes[file] - 88
			default:
				continue
			}
			for at := from; at < img.sizes[file]; at += step {
				disk := img.disk.Clone()
				testkit.Must(t, img.flip(file, at, int(at%8)).do(disk))
				report, _, err := img.salvage(disk, stoat.SalvageOptions{})
				if err != nil || len(report.Lost) > 0 {
					t.Fatalf("bit %d of byte %d of %s: %v, lost %+v", at%8, at, path, err, report.Lost)
				}
			}
		}
	}
}
