package stores

import "runtime/debug"

// moduleVersion returns the version of a Go module as built into this
// program, or "unknown" in a program built without module data.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path != path {
			continue
		}
		if m.Replace != nil && m.Replace.Version != "" {
			return m.Replace.Version
		}
		return m.Version
	}
	return "unknown"
}
