// Package stoat is an embedded, persistent, transactional key-value store.
//
// A database is a directory. One process opens it at a time, and any number
// of its goroutines use it:
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
// Readers see a snapshot, never wait for writers and never make them wait. A
// stored byte that changed is an error, never an answer.
//
// Conflicts show as ErrConflict from Commit or Update: another transaction
// committed a change under something this one read, a key (present or
// absent) or a range it iterated over. Run the transaction again.
//
// # Borrowed bytes
//
// Slices that Get and iterators return point into the database's own memory.
// They must not be changed, and are valid until the transaction ends. GetCopy
// and Item.KeyCopy and ValueCopy return bytes the caller owns. With the build
// tag "invariants" the borrowed bytes are spoiled when the transaction ends,
// so that a slice kept too long shows in tests.
package stoat
