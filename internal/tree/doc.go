// Package tree reads the tables of a database: it keeps them open, finds the
// one that a key is in, and iterates over a level as over one long table.
//
// The manifest says which tables there are (manifest.Version, metadata alone);
// a View is what readers use: the same tables with their readers, arranged for
// searching. Both are immutable. Tables are opened when they are first read,
// so that opening a database costs nothing for each of them.
//
// Who replaces a View waits until nobody reads the old one before Files.Drop
// ends the tables that the new one lacks; the package does not count readers.
package tree
