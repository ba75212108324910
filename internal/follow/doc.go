// Package follow reads a database beside the process that writes it, without a lock. It
// reads the manifest and the log where they grow, and puts new commits into memtables of
// its own. It shows them together with the tables of the manifest.
//
// # Whole commits
//
// A round reads the log first, and then the manifest. So the manifest has everything that
// the commits need: their value files, their keyspaces, and the tables of ingests. An
// ingest takes a version that the log lacks. The round shows readers the state of one
// version:
//
//	visible = the newest of what the log has, and what the manifest says is in tables
//
// The writer flushes only commits that are in the log. So what the manifest has in tables
// beyond the log that was read is complete, too.
//
// Memtables keep nothing that tables have: readers would count operands of merges twice.
// What the writer has flushed may end in the middle of a memtable of the follower. The
// follower then copies the rest to another memtable.
//
// # What the writer does meanwhile
//
// The writer deletes tables and value files that it has replaced, and frees segments of
// the log. It does so after the manifest says so durably. So a round opens all files
// before readers see them. If one is gone, or the log ends within a freed segment, the
// manifest has changed, and the next round begins anew.
//
// When a writer opens the database, it begins a new span of the log. It may lack commits
// that no sync made durable and a power cut took. The follower then reads the log anew.
package follow
