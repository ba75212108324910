//go:build (darwin || freebsd) && !race

package vfs

import "math"

// hugePageMin is larger than every allocation: these systems have no advice for huge
// pages.
const hugePageMin = math.MaxInt

func adviseHugePages([]byte) {}
