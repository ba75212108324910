// Package tree reads the tables of a database. It keeps them open, finds the one
// that a key is in, and iterates over a level like over one long table.
//
// The manifest lists the tables (manifest.Version, only metadata). A View holds the
// same tables with their readers, arranged for searching. Both are immutable. A
// table is opened at its first read, so opening a database opens no tables.
//
// The package does not count readers. The caller that replaces a View must wait
// until no reader uses the old one. Then it may call Files.Drop for the tables that
// the new View lacks.
package tree
