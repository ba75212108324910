package mutant

import "testing"

func TestOn_FalseUnlessEnabled(t *testing.T) {
	for _, name := range Names {
		if On(name) {
			t.Errorf("%s is on although no test enabled it", name)
		}
	}
}

func TestNames_AreDistinct(t *testing.T) {
	seen := make(map[Name]bool)
	for _, name := range Names {
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
	}
}
