package layers

// Module is the import path of the module whose shape this is.
const Module = "github.com/stoatdb/stoat"

// Stoat is the shape of this module. Keys and packages are directories
// relative to the root; "." is the root itself.
//
// A package imports only packages of lower floors. Packages of one floor do
// not import each other. Every package but test support has a row, so placing a new
// package is a decision. No package below the root holds a *DB.
//
// Test files may also import packages of their own floor and the test support
// packages. Only test files and other test support may import test support.
var Stoat = Shape{
	Module: Module,

	Floors: map[string]int{
		"internal/invariant": 0,
		"internal/lock":      0,
		"internal/mutant":    0,

		"feed":  0,
		"merge": 0,

		"internal/base":    1,
		"internal/scratch": 1,
		"internal/event":   1,
		"internal/stamp":   1,
		"vfs":              1,

		"internal/cache":     2,
		"internal/codec":     2,
		"internal/fault":     2,
		"internal/filter":    2,
		"internal/gaps":      2,
		"internal/histogram": 2,
		"internal/iter":      2,
		"internal/keyspace":  2,
		"internal/memtable":  2,
		"internal/newdir":    2,
		"internal/partial":   2,
		"internal/rangedel":  2,
		"internal/record":    2,
		"internal/residency": 2,
		"internal/seal":      2,
		"internal/payload":   2,
		"internal/readers":   2,
		"internal/readset":   2,
		"internal/turns":     2,
		"internal/work":      2,
		"vfs/faultfs":        2,
		"vfs/memfs":          2,

		"internal/log":      3,
		"internal/manifest": 3,
		"internal/table":    3,
		"internal/values":   3,

		"internal/check":   4,
		"internal/tree":    4,
		"internal/compact": 4,

		"internal/quarantine": 4,
		"internal/settings":   4,
		"internal/state":      5,
		"internal/space":      5,

		"internal/governor": 6,
		"internal/place":    6,
		"internal/stream":   6,
		"internal/throttle": 6,

		"internal/backup":     7,
		"internal/checkpoint": 7,
		"internal/commit":     7,

		"internal/changes": 8,
		"internal/collect": 8,
		"internal/dump":    8,
		"internal/follow":  8,
		"internal/jobs":    8,
		"internal/spaces":  8,

		"internal/ingest":      9,
		"internal/manual":      9,
		"internal/salvage":     9,
		"internal/transaction": 9,

		"internal/door": 3,

		"internal/engine": 10,

		".": 11,

		"filebackup": 12,
		"keyfs":      12,
		"sequence":   12,
		"sorted":     12,

		"cmd/stoat/internal/bench": 12,

		"cmd/stoat": 13,
	},

	// The memtable implements the cursor interface of iter, and prepares its
	// range deletions in the form that rangedel defines. iter shows gaps as gaps defines
	// them.
	Exceptions: map[Edge]bool{
		{From: "internal/iter", To: "internal/gaps"}:         true,
		{From: "internal/memtable", To: "internal/iter"}:     true,
		{From: "internal/memtable", To: "internal/rangedel"}: true,
	},

	TestSupport: []string{"filebackup/storetest", "internal/testing", "tests"},

	// All file access goes through vfs, so that tests can make it fail and
	// crash. path/filepath counts as os, because Glob, Walk and EvalSymlinks
	// read the disk. A key file is outside of the database, and may be a link.
	Guarded: map[string][]string{
		"io/ioutil":                     {},
		"os":                            {"vfs", "internal/testing/script", "cmd/stoat", "cmd/stoat/internal/bench"},
		"os/exec":                       {},
		"os/signal":                     {"cmd/stoat"},
		"os/user":                       {},
		"path/filepath":                 {"vfs", "internal/seal", "internal/testing/script", "cmd/stoat", "cmd/stoat/internal/bench"},
		"plugin":                        {},
		"syscall":                       {"vfs", "cmd/stoat"}, // cmd/stoat names signals, and the owner of a file
		"unsafe":                        {"internal/memtable", "internal/readers", "vfs"},
		"C":                             {},
		"math/rand":                     {},
		"math/rand/v2":                  {Anyone}, // its generators are values with a seed
		"github.com/klauspost/compress": {"internal/codec"},
		"golang.org/x/sys":              {"vfs"},
		"github.com/zeebo/xxh3":         {"internal/base"},
	},

	// A test uses the operating system directly only where that is its subject. Such
	// subjects are the vfs, processes that are killed or compete for a lock, and the source
	// files that this package reads. All other tests create their files through the vfs, in
	// memory or in testing.TempDir.
	GuardedInTests: map[string][]string{
		"os":            {".", "internal/testing/layers", "internal/testing/prose", "tests/behaviour", "tests/benchmarks", "tests/diskfull", "tests/follow", "tests/golden", "tests/kill", "tests/mount", "tests/mutants", "tests/powercut", "tests/scripts", "tests/steps"},
		"os/exec":       {"tests/behaviour", "tests/diskfull", "tests/follow", "tests/kill", "tests/mount", "tests/mutants", "tests/powercut", "tests/scripts", "vfs"},
		"path/filepath": {"internal/testing/layers", "internal/testing/prose", "tests/behaviour", "tests/benchmarks", "tests/diskfull", "tests/golden", "tests/kill", "tests/mount", "tests/powercut", "tests/scripts", "tests/steps"},
		"syscall":       {"tests/benchmarks", "tests/diskfull", "tests/kill", "tests/mount", "tests/powercut", "tests/steps"},
		"unsafe":        {"tests/powercut"},
	},
}
