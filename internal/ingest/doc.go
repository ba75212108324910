// Package ingest writes sorted entries as one commit, directly to tables and value files.
//
// The tables are written with version 0, because the version of an ingest is that of its
// end. The manifest edit that makes them live gives each table the shift to the true
// version. Until that edit, the files are orphans, which Open deletes after a crash.
package ingest
