//go:build !unix

package measure

import "math"

// FreeSpace does not know, and hopes.
func FreeSpace(string) (int64, error) { return math.MaxInt64, nil }
