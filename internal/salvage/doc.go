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
// come back if its tombstone is gone and an obsolete file still has it. The version of
// ingested entries is lost, and the report says so. They get the version that the numbers of the
// files suggest. Of several ingests of a key the newest file wins, if at most Options.FanIn
// tables overlap.
//
// A block, a value and a log record are lost alone. Of the rest, it needs:
//
//	damaged                                        what it needs
//	header, footer or remap of a value file        one place with the salt: header, footer or manifest
//	checksums, directory, properties or hash       the rest of the table; it corrects one
//	index of a table                               wrong bit
//	footer of a table                              the salt in the manifest
//	header of a log segment                        its other copy, or a reference to the segment
//	footer of a sealed file; KEYS                  all but one bit; otherwise the key is lost
package salvage
