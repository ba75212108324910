package manifest

import "github.com/stoatdb/stoat/internal/base"

// A Version is the tables and value files that are live at one moment. It is
// immutable: readers hold one, and an edit makes the next.
type Version struct {
	// Levels holds the tables. Level 0 is ordered by descending run, the
	// newest first, and within a run by key; the others by key.
	Levels [Levels][]*Table
	// Values holds the value files, ascending by number, with what is live in
	// each.
	Values []LiveValues
}

// LiveValues is a value file and how many of its bytes tables refer to. The
// rest is garbage. The sum is kept by the edits that add and drop tables, so
// that it is exact at any moment, and after any crash.
type LiveValues struct {
	*ValueFile
	Live uint64
}

// A Place names a table in its level.
type Place struct {
	Level int
	Num   base.FileNum
}
