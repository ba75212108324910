//go:build mutants

package stoat_test

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/hunt"
)

// whiteBoxHarnesses drive the engine from within. tests/mutants has all others.
var whiteBoxHarnesses = []hunt.Harness{
	{Name: hunt.Schedules, Run: func(seed uint64, scale int) error {
		for i := range uint64(60 * scale) {
			if err := stoat.RunSchedule(seed<<16 + i); err != nil {
				return err
			}
		}
		return nil
	}},
	{Name: hunt.Resurrection, Run: func(uint64, int) error { return stoat.ResurrectedKey() }, Asked: true},
}

// TestMutants removes the guarantees that only white-box harnesses can miss.
func TestMutants(t *testing.T) { hunt.All(t, "TestMutants_Hunt", false, whiteBoxHarnesses) }

// TestMutants_Hunt is one hunt of TestMutants.
func TestMutants_Hunt(t *testing.T) { hunt.One(t, whiteBoxHarnesses) }
