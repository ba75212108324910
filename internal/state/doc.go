// Package state holds what a database consists of at a moment, and changes it.
//
//   - A View is what readers see: the memtables, and the tables and value files
//     of a manifest version. It is immutable. A change installs the next one.
//   - Readers announce which view they read. So the store knows which obsolete
//     files and memtables a reader may still use.
//   - Install appends an edit to the manifest and then shows a view with it. A
//     crash before the edit leaves orphans that the next Open deletes.
//   - The clock of the database and the expiry horizon judge which values have
//     expired.
//
// The store decides nothing about what to flush, to merge or to collect. Jobs
// do, and hand it the result as an edit.
package state
