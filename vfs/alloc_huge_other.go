//go:build (darwin || freebsd) && !race

package vfs

import "math"

// hugePageMin is out of reach: these systems take no advice on page sizes.
const hugePageMin = math.MaxInt

func adviseHugePages([]byte) {}
