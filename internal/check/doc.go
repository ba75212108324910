// Package check reads all tables and value files of a database and reports every
// inconsistency. It checks each file by itself, including checksums, order and hash
// index, and compares the files with the manifest. It checks that the tables of a run
// do not overlap, and that every key is newer in a higher level. It checks that every
// pointer leads to its value, and that the manifest has the right sums of referenced
// bytes. It decodes partial entries and the keys of keyspaces with timestamps, and needs
// no function of the program for that.
//
// The check continues after a problem, so that the report shows the extent of the
// damage. It changes nothing.
package check
