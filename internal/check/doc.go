// Package check walks all tables and value files of a database and reports
// everything that is not as it should be: each file in itself, checksums, order
// and hash index included; what the manifest says of the files; that the tables
// of a run do not overlap and that levels lie in the order of time; that every
// pointer leads to its value, and that the sums of what tables refer to are
// those of the manifest.
//
// It goes on after a problem: the report has all of them, so that one can see
// how far a damage reaches. It changes nothing.
package check
