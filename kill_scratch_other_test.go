//go:build !linux

package stoat_test

import "os"

// scratch makes a directory for a harness that syncs all the time.
func scratch(name string) (string, error) { return os.MkdirTemp("", name) }
