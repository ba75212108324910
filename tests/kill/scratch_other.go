//go:build !linux

package kill

import "os"

// Scratch makes a directory for a harness that syncs all the time.
func Scratch(name string) (string, error) { return os.MkdirTemp("", name) }
