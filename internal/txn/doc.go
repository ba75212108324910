// Package txn holds the parts of transactions that touch neither data nor disk:
// the registry of snapshots in use, a transaction's read set, and the encoding
// of its writes in the write-ahead log. It knows sequence numbers, not files.
package txn
