//go:build mutants

package mutant

import "testing"

func TestEnable_CountsAndRestores(t *testing.T) {
	restore := Enable(NoSync, NoCarry)
	if !On(NoSync) || !On(NoCarry) || On(RetrySync) {
		t.Error("exactly the enabled names should be on")
	}
	if n := restore(); n != 2 {
		t.Errorf("restore reports %d calls, want 2", n)
	}
	if On(NoSync) {
		t.Error("restore left the name on")
	}
}
