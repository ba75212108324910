package lock

// A Ranked type names one lock of the engine and gives its rank. A goroutine
// takes locks in the order of rising ranks. Locks of one rank are never nested.
type Ranked interface {
	// Rank returns the place of the lock in the order, and its name.
	Rank() (rank int, name string)
}

// The locks of the engine, in the order in which a goroutine may take them.
// docs/architecture.md has the same table with what each lock guards; a test
// compares the two.
type (
	// Checkpointing is held by the one Checkpoint that runs.
	Checkpointing struct{}
	// Compacting is held from the choice of a compaction to its end.
	Compacting struct{}
	// Collecting is held from the choice of a collection to its end.
	Collecting struct{}
	// Following is held while a follower reads what another process has written.
	Following struct{}
	// Defining is held to open, create or drop a keyspace.
	Defining struct{}
	// Batch is held to write to a batch, and to commit a piece of it.
	Batch struct{}
	// Transaction guards the open iterators, loops and lent copies of a transaction.
	// CompactOptions.Progress may use transactions while Compacting is held.
	Transaction struct{}
	// Turns guards the updates that wait for each other.
	Turns struct{}
	// Iterator is held while an iterator reads the snapshot.
	Iterator struct{}
	// Snapshot guards the Views of a snapshot, and the list of the snapshots.
	Snapshot struct{}
	// Ingesting is held while the tables of an ingest are committed.
	Ingesting struct{}
	// Build is held by the leader that builds a group of commits.
	Build struct{}
	// Governor is held during a round of the memory governor.
	Governor struct{}
	// Shutting is held to free memory and files after Close.
	Shutting struct{}
	// Sweeping is held to delete obsolete files and memtables.
	Sweeping struct{}
	// Installing is held to append a manifest edit and show its view.
	Installing struct{}
	// Saving is held to write the time to the manifest.
	Saving struct{}
	// Looking is held to measure free space and to promise it.
	Looking struct{}
	// Changing is held to replace the view.
	Changing struct{}
	// Obsolete guards the list of obsolete files and memtables.
	Obsolete struct{}
	// Horizon guards the expiry horizon.
	Horizon struct{}
	// Flushes guards what waiters know of flushes.
	Flushes struct{}
	// Queue guards the queue of commits.
	Queue struct{}
	// Held guards which value files commits hold.
	Held struct{}
	// History guards which commits the log has.
	History struct{}
	// Publications guards the history of publications.
	Publications struct{}
	// Quarantine is held to add damaged files.
	Quarantine struct{}
	// Copies guards the queue of one collection.
	Copies struct{}
	// Ending is held to start a goroutine, and to stop all.
	Ending struct{}
	// Events guards the queue of events.
	Events struct{}
)

// Rank implements Ranked.
func (Checkpointing) Rank() (int, string) { return 20, "checkpointing" }

// Rank implements Ranked.
func (Compacting) Rank() (int, string) { return 30, "compacting" }

// Rank implements Ranked.
func (Collecting) Rank() (int, string) { return 40, "collecting" }

// Rank implements Ranked.
func (Following) Rank() (int, string) { return 41, "following" }

// Rank implements Ranked.
func (Defining) Rank() (int, string) { return 42, "defining" }

// Rank implements Ranked.
func (Batch) Rank() (int, string) { return 43, "batch" }

// Rank implements Ranked.
func (Transaction) Rank() (int, string) { return 44, "transaction" }

// Rank implements Ranked.
func (Turns) Rank() (int, string) { return 45, "turns" }

// Rank implements Ranked.
func (Iterator) Rank() (int, string) { return 46, "iterator" }

// Rank implements Ranked.
func (Snapshot) Rank() (int, string) { return 47, "snapshot" }

// Rank implements Ranked.
func (Ingesting) Rank() (int, string) { return 48, "ingesting" }

// Rank implements Ranked.
func (Build) Rank() (int, string) { return 50, "build" }

// Rank implements Ranked.
func (Governor) Rank() (int, string) { return 55, "governor" }

// Rank implements Ranked.
func (Shutting) Rank() (int, string) { return 58, "shutting" }

// Rank implements Ranked.
func (Sweeping) Rank() (int, string) { return 60, "sweeping" }

// Rank implements Ranked.
func (Installing) Rank() (int, string) { return 70, "installing" }

// Rank implements Ranked.
func (Saving) Rank() (int, string) { return 80, "saving" }

// Rank implements Ranked.
func (Looking) Rank() (int, string) { return 90, "looking" }

// Rank implements Ranked.
func (Changing) Rank() (int, string) { return 100, "changing" }

// Rank implements Ranked.
func (Obsolete) Rank() (int, string) { return 110, "obsolete" }

// Rank implements Ranked.
func (Horizon) Rank() (int, string) { return 120, "horizon" }

// Rank implements Ranked.
func (Flushes) Rank() (int, string) { return 130, "flushes" }

// Rank implements Ranked.
func (Queue) Rank() (int, string) { return 140, "queue" }

// Rank implements Ranked.
func (Held) Rank() (int, string) { return 150, "held" }

// Rank implements Ranked.
func (History) Rank() (int, string) { return 155, "history" }

// Rank implements Ranked.
func (Publications) Rank() (int, string) { return 160, "publications" }

// Rank implements Ranked.
func (Quarantine) Rank() (int, string) { return 170, "quarantine" }

// Rank implements Ranked.
func (Copies) Rank() (int, string) { return 180, "copies" }

// Rank implements Ranked.
func (Ending) Rank() (int, string) { return 200, "ending" }

// Rank implements Ranked.
func (Events) Rank() (int, string) { return 210, "events" }
