// Package spaces keeps the keyspaces of an open database. It opens, creates, lists
// and drops them, and changes their settings. The manifest holds the table of
// keyspaces.
//
// Dropping a keyspace takes these steps:
//
//  1. One edit of the manifest takes the name away and says that the keyspace is
//     being dropped. The drop is durable from here on.
//  2. Its gate shuts: commits that write to the keyspace fail.
//  3. A commit deletes the range of its stored keys. Older snapshots still see them.
//  4. When no older snapshot is left, the dropper frees the range, as DropPrefix
//     does: it drops tables that hold nothing else without reading them. Dropped
//     neighbours are freed together.
//  5. When no key of the range is left, an edit forgets the keyspace.
//
// After a crash, the next Open for writing goes on with step 3. No number is used
// again, so step 5 may come at any time after the last key is gone.
package spaces
