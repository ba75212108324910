// Package txn holds what transactions need that is neither data nor disk: the
// registry of snapshots being read, the set of what a transaction has read,
// and the encoding of its writes in the log. It knows sequence numbers, not
// files.
package txn
