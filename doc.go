// Package stoat is an embedded, persistent, transactional key-value store.
//
// A database is a directory. One process at a time may open it to write, and all
// goroutines of the process may use it. OpenFollower lets other processes read it
// meanwhile. With Options.ReadOnly, several processes may read it, and keep writers out.
//
//	db, err := stoat.Open(dir, nil)
//	err = db.Update(func(tx stoat.Txn) error {
//		return tx.Set([]byte("answer"), []byte("42"))
//	})
//	err = db.View(func(tx stoat.Txn) error {
//		v, err := tx.Get([]byte("answer"))
//		…
//	})
//
// # Promises
//
// A commit that returned nil survives a crash of the process and a power cut. With
// Buffered it survives a crash of the process.
//
// A transaction is there whole or not at all.
//
// Transactions are serializable: no lost updates, no write skew, no phantoms. Only reads at
// a timestamp in a keyspace with TimestampsUnchecked are not checked.
//
// A changed stored byte is an error, ErrCorrupt, never an answer. There are two exceptions.
// Damage to the last commits can look like a torn write, and these commits are then missing.
// This takes a process that died within a second of them, or a power cut before the system
// wrote back the end of the log. And a process verifies a byte once. It does not notice a later
// change on the device if the system drops the page and reads it again.
//
// A failing or full disk is an error, never a panic and never a false success. There is
// one exception: if the device is lost, the caller's own read of a borrowed value may fault.
// View and Update return that fault as an error, on the goroutine that runs the function.
// Elsewhere it ends the process. GetCopy and its like do not fault.
//
// Get never waits for a commit, and no reader makes a commit wait. The first
// iterator after a burst of writes may wait while those writes, at most a memtable
// of them, are sorted. The first read that finds a key expired may wait for a sync,
// so that the key stays expired. On Linux, buffered commits can make readers wait while an
// administrator freezes the file system, such as for a copy of the volume.
//
// # Versions
//
// Each commit that writes gets a number, its version. Versions ascend. Txn.ReadVersion is
// the version of the newest commit that a transaction sees. Each value carries the version
// of the commit that wrote it. So the values of one key are also called its versions.
//
// # Conflicts
//
// Commit and Update return ErrConflict when another transaction committed a change
// to something that this transaction read. That may be a key, present or absent, or
// a range that an iterator passed over. The caller runs the transaction again, or lets
// Update do so:
//
//	err := db.Update(fn, stoat.Retries(10))
//
// # Batches and snapshots
//
// DB.NewBatch collects writes without reading anything. With BatchOptions.Pieces, it loads any
// amount of data in bounded memory. Without, it is one commit of at most BatchOptions.Size
// bytes; DB.Ingest and DB.BulkLoad write more as one commit. DB.Snapshot returns a state that
// any goroutine may read for as long as it likes.
//
// Package sequence gives out numbers, and package keyfs shows keys as files.
//
// # Keys
//
// Keys are strings of bytes, in the order of bytes.Compare. So a program encodes integers with
// a fixed width and the highest byte first. A nil bound of a range is no bound. A range whose
// upper bound is not above the lower one is empty. All keys begin with an empty prefix.
//
// # Keyspaces
//
// A keyspace is what bbolt calls a bucket, and RocksDB a column family. A database has a
// default keyspace, and up to 65,535 others that have names. A key of one keyspace is
// unrelated to an equal key of another. DB.Keyspace opens or creates a keyspace. Txn.In
// returns the same transaction in a keyspace. So one transaction may read and write many, and
// commits to all or to none:
//
//	users, err := db.Keyspace("users", nil)
//	err = db.Update(func(tx stoat.Txn) error {
//		return tx.In(users).Set([]byte("ann"), profile)
//	})
//
// Each keyspace has its own settings, which the database stores: KeyspaceOptions change
// them. All keyspaces share one log, one tree and the memory of the database. So a
// thousand of them cost little.
//
// DB.DropKeyspace deletes a keyspace in constant time, and background jobs free its
// space. Older transactions still see it.
//
// # Timestamps
//
// In a keyspace that was created with KeyspaceOptions.Timestamps, the caller chooses
// the timestamp of each version. Txn.At reads and writes at a timestamp. Versions may
// arrive in any order. Without Txn.At, reads and writes in such a keyspace return
// ErrInvalid. Keyspace.DiscardBelow lets the database drop old versions.
//
// With TimestampsChecked, a read at a timestamp conflicts only with a commit that
// changes what the timestamp shows. Suppose that a program reads at timestamp 10 and writes
// at timestamp 20. Before its commit, it reads each key again at 20. An Item.Timestamp above
// 10 means that another transaction wrote a version in between. If another transaction
// commits such a version later, the program's Commit returns ErrConflict.
//
// # Failed writes
//
// After a failed write to the log or the manifest, or a failed sync of the directory, the
// contents of the disk are unknown. The database then refuses further writes: commits
// return ErrFailed until the caller closes the database and opens it again. A transaction
// whose commit returned ErrFailed is then there as a whole or not at all.
//
// DB.Close also returns ErrFailed then. To learn whether the transaction is there, open the
// database and read one of its keys.
//
// After any other error of Txn.Commit, nothing was written, and the caller can run the
// transaction again. After ErrNoSpace, free disk space first. A batch with Pieces keeps
// the pieces that it committed before the error.
//
// # Deleting much
//
// Txn.DeleteRange deletes all keys of a range with one write, however many keys
// there are. DB.DropPrefix and DB.DropAll also free space before they return. In a value
// file with much more older garbage, background jobs free it later.
// DB.DropPrefix is for the default keyspace, DB.DropAll for all keyspaces. Keyspace
// has the same methods for one.
//
// # Merging, renewing, filtering
//
// Txn.Merge writes an operand, such as "add 1", without reading the key. Operands of
// several transactions are no conflict. Options.MergeFunction names the function that
// makes a value of them; package merge has counters, sets and lists. Txn.Renew gives a
// value a new expiry time without writing it again. A Filter drops or rewrites values
// when compactions pass over them.
//
// # Limits
//
// A key has 1 byte to 64 KiB. A value has up to 4 GiB less one byte. A transaction
// keeps its writes in memory until the commit, except values that SetReader streams
// to a file. A read-write transaction also keeps each key that it looked up, until its end.
//
// Options.MemoryBudget, 256 MiB by default, covers memtables, data about open files, and
// mapped pages. It does not include the memtables that open transactions began with. Mapped
// pages may exceed the budget while the machine has memory to spare. The guide in docs lists
// what else comes on top.
//
// # Encryption
//
// With Options.Keys, a new database is encrypted: no file has a key or a value in
// plain text. A KeyProvider supplies master keys; StaticKeys and KeyFile are simple
// ones. DB.RotateMasterKey protects the database with another master key. Sizes of files,
// lengths, times and the ID of the master key stay readable. A program that can write to the
// disk can bring back an older state of the directory.
//
// # Operation
//
// DB.Check verifies every byte of a database that is in use. DB.Checkpoint makes a
// copy of it. DB.Compact frees all space of deleted data at once; background jobs
// otherwise free it over time. Options.ReadOnly opens a database without changing
// the disk. DB.Stats returns counts, and Options.Events reports background jobs.
//
// # Testing a program
//
// Options.FS takes any file system of package vfs. Package vfs/memfs keeps a database
// in memory and simulates power cuts. Package vfs/faultfs makes chosen calls fail.
// Options.Clock lets a test control the clock that decides expiry.
//
// # Misuse
//
// Misuse of an open database and of its transactions returns an error that errors.Is
// finds, and does not panic. The methods of a nil or zero DB, Snapshot or Keyspace panic.
// An empty key returns ErrEmptyKey, and an argument without meaning, such as a zero Keyspace,
// returns ErrInvalid. A transaction or an iterator that has ended returns ErrTxnDone.
//
// The caller must not end a transaction while other goroutines use it. Otherwise they may read
// memory that is gone. The race detector reports such a use.
//
// # Borrowed bytes
//
// Get and iterators return slices of the database's own memory, and the caller must
// not change them. A value is valid until the transaction ends, the key of an
// iterator until the iterator moves. GetCopy, Item.KeyCopy and Item.ValueCopy
// return bytes that the caller owns. After their time, borrowed bytes may hold other data,
// or a read of them may end the process with a fault. A write to them may do so at any time.
//
// With the build tag "invariants", the database overwrites borrowed bytes when
// their time is over. A slice that the caller kept too long then fails tests.
package stoat
