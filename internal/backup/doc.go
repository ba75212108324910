// Package backup writes snapshots of a database as backups, reads them, and makes
// databases of them. docs/format-backup.md describes the format.
//
// A backup has keys in order, and the versions of each key from the newest to the oldest, as
// many as the keyspace keeps. It has no tombstones: it leaves out what they hide.
//
// An incremental backup has the versions after its Since. For each key that also had an
// older version, it names the newest of these. That version is unchanged, and so are those
// before it. An older version that a later backup does not name is gone. A tombstone, a
// range tombstone, or a merge that dropped both may have removed it. So a backup depends on
// no history that compactions drop.
//
//	full, at 10       since 10, at 20      since 20, at 30     restored
//	a#7 SET a#3 SET   a#7 unchanged        a#7 unchanged       a#7 a#3
//	b#9 MERGE b#4 SET b#15 MERGE b#9 unch. b#15 unchanged      b#15 b#9 b#4
//	c#5 SET           -                    c#28 SET            c#28
//	d#6 SET           - (d#12 DELETE)      -                   -
//
// A restore merges the backups of a chain in one pass, and writes tables of the last level.
package backup
