// Package filebackup copies the files of a database to a store, each file once.
//
// Table and value files never change. [Backup] takes a checkpoint of an open database, and
// copies the files that the store lacks. These are the new ones, also those that compaction
// has rewritten: after a Compact of the database, perhaps all. Each backup is complete: any
// other one can be deleted. [Restore] makes a database of a backup, [Verify] reads every byte
// of one, and [Prune] deletes old ones.
//
// A [Store] holds objects under names. [Dir] is a store in a directory. The module
// github.com/stoatdb/stoat/s3store has one for S3 and compatible object stores. Package
// storetest checks a store of your own.
//
// # Objects
//
// A store has these objects:
//
//	files/SHA256     a file of a database, named by its SHA-256
//	lists/ID         a backup: names, sizes and SHA-256 of its files
//	claims/KIND-ID   a backup or a Prune under way
//	partial/NAME     what unfinished or failed calls left; only Dir has them
//
// A file comes before the list that names it. So a crash leaves all lists complete. A
// list is text; docs/format-backup.md describes it.
//
// Give each database a store, or a directory, of its own. A store does not tell whose backups
// it has: [Prune] counts all together, and an empty ID names the newest of all. A backup reads
// all files that the newest backup does not have.
//
// # Damage
//
// [Backup] takes a file in the store for intact if its size is right. So a file that decays
// there damages all backups that have it, also later ones. Call [Verify] from time to time. If
// it reports damage, make a backup with Verify in [Options]. That one replaces each
// damaged file that the database still has. It deletes nothing, and may run during other backups.
// It also finds files that an earlier backup has copied with a wrong byte: see [Options].
//
// # Encryption
//
// The files of an encrypted database are copied as they are. KEYS is one of them, sealed by
// the master key of that time. So a restore needs the master key that was current then.
package filebackup
