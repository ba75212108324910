// Package stoat is an embedded, persistent, transactional key-value store.
//
// A database is a directory. One process opens it at a time, and any number
// of its goroutines use it; with Options.ReadOnly several may read it together.
//
//	db, err := stoat.Open(dir, nil)
//	err = db.Update(func(tx *stoat.Txn) error {
//		return tx.Set([]byte("answer"), []byte("42"))
//	})
//	err = db.View(func(tx *stoat.Txn) error {
//		v, err := tx.Get([]byte("answer"))
//		…
//	})
//
// # Promises
//
// Transactions are serializable. A commit that returned nil survives a crash
// of the process and, unless the database or the commit asked for buffered
// durability, of the machine. A transaction is there whole or not at all.
// Readers see a snapshot and never make writers wait. To look for a key never waits
// for a commit; an iterator that begins may wait for who is sorting what was
// written since the last one began, at most a memtable of it; and who is the first
// to miss an expired key may wait for a sync, so that the key stays missing. A
// stored byte that changed is an error, never an answer.
//
// Conflicts show as ErrConflict from Commit or Update: another transaction
// committed a change under something this one read, a key (present or
// absent) or a range it iterated over. Run the transaction again:
//
//	for {
//		err := db.Update(fn)
//		if !errors.Is(err, stoat.ErrConflict) {
//			return err
//		}
//	}
//
// When a write to the log or the manifest has failed, nobody knows what of it is on
// the disk. Then the database takes no more writes: commits return ErrFailed until
// it is closed and opened again. A transaction whose commit got ErrFailed may be
// there then, or not. After any other error of a commit nothing was written, and
// the transaction can be run again; after ErrNoSpace once there is space.
//
// Txn.DeleteRange deletes all keys of a range at one stroke, whatever their
// number. DB.DropPrefix and DB.DropAll do the same and give the space back before
// they return.
//
// # Limits
//
// Keys have 1 byte to 64 KiB, values up to 4 GiB less one byte. A transaction has
// its writes in memory, but for values that SetReader streams to a file. The
// memory that a database takes beside that is Options.MemoryBudget, 256 MiB unless
// set.
//
// # Operation
//
// DB.Check verifies every byte of a database, in use or not; DB.Checkpoint makes
// a copy of one in use; DB.Compact gives all space of deleted data back at once,
// which otherwise happens in time. Options.ReadOnly opens a database without
// changing anything on the disk. DB.Stats counts, and Options.Events tells what
// happens in the background.
//
// # Mistakes
//
// What cannot be done is an error to ask for by errors.Is, and never a panic: an
// empty key is ErrEmptyKey, an argument that means nothing is ErrInvalid, and a
// transaction or an iterator that has ended answers ErrTxnDone.
//
// A transaction must not end while other goroutines use it. Iterators that these
// open and close are closed with it or refused, but what they are about to look at
// may be gone; the race detector finds such a use.
//
// # Borrowed bytes
//
// Slices that Get and iterators return point into the database's own memory
// and must not be changed. Values are valid until the transaction ends, keys
// of an iterator until it moves. GetCopy, Item.KeyCopy and Item.ValueCopy
// return bytes that the caller owns. With the build tag "invariants" borrowed
// bytes are spoiled when their time is over, so that a slice kept too long
// shows in tests.
package stoat
