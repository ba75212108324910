// Package door lets tests reach the engine of a database. Package stoat sets Open.
package door

import "github.com/stoatdb/stoat/internal/work"

var (
	// Open is stoat.Open with an executor of background jobs. options is *stoat.Options,
	// db is *stoat.DB, and engine is the *engine.Engine in it.
	Open func(dir string, options any, exec work.Executor) (db, engine any, err error)

	// Inner returns the transaction.Txn in a stoat.Txn, and Outer the stoat.Txn with a
	// transaction.Txn in it.
	Inner, Outer func(tx any) any
)
