// Package event has what happens inside of the engine, as plain values. The
// root package turns them into the public events.
package event

import "time"

// A Sink takes events. It may be called with any lock held: it only queues them.
type Sink func(any)

// FlushDone: memtables became tables.
type FlushDone struct {
	Memtables, Tables, Values int
	Bytes                     int64
	Took                      time.Duration
}

// CompactionDone: tables were merged, moved or dropped.
type CompactionDone struct {
	Plan                    string
	Level                   int
	InputBytes, OutputBytes int64
	Took                    time.Duration
}

// CollectionDone: the garbage of value files was given back.
type CollectionDone struct {
	Files                   int
	InputBytes, OutputBytes int64
	Took                    time.Duration
}

// FileCreated: a table or a value file became a part of the database.
type FileCreated struct {
	Name string
	Size int64
}

// FileDeleted: a file that was no part of the database any more was deleted.
type FileDeleted struct{ Name string }

// StallBegin: commits wait because the memory for memtables is used up.
type StallBegin struct{}

// StallEnd: commits go on.
type StallEnd struct{ Took time.Duration }

// SpaceLow: less of the disk is free than the reserve.
type SpaceLow struct{ Free, Reserve int64 }

// SpaceRegained: enough of the disk is free again.
type SpaceRegained struct{ Free int64 }

// CheckpointDone: a checkpoint was made.
type CheckpointDone struct {
	Dir   string
	Files int
	Bytes int64
	Took  time.Duration
}

// Warning: the database could not do a thing that it can do without.
type Warning struct {
	What string
	Err  error
}

// BackgroundError: a background job failed.
type BackgroundError struct{ Err error }
