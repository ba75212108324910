package mutant

import "testing"

func TestOffUnlessEnabled(t *testing.T) {
	for _, name := range Names {
		if On(name) {
			t.Errorf("%s is on without anybody having enabled it", name)
		}
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := make(map[Name]bool)
	for _, name := range Names {
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
	}
}
