// Package salvage copies what verifies of a damaged database to a new one. It never
// writes to the damaged directory.
//
// It works below transactions: it copies entries with their sequence numbers, so partial
// entries need no merge function, and all versions stay. The steps:
//
//  1. Read the manifest. If all of it verifies, it names the live files. Otherwise every
//     table, value file and log segment in the directory counts.
//  2. Arrange the tables in chains that do not overlap, and read their range tombstones.
//  3. Sort what the log holds, in parts that fit the memory.
//  4. Merge chains and sorted parts into new tables. Copy each value to a new value file.
//  5. Write the manifest, and give the new directory its name.
//
// Without a manifest, sequence numbers alone decide what is newest. What was deleted can
// come back if its tombstone is gone and an obsolete file still has it.
package salvage
