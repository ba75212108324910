//go:build (darwin || freebsd) && !race

package vfs

import "math"

// hugePageMin is larger than every allocation: these systems have no advice for huge
// pages.
const hugePageMin = math.MaxInt

func adviseHugePages([]byte) {}

// sparseFlags are the further flags of a sparse mapping.
const sparseFlags = 0

func adviseSmallPages([]byte) {}
