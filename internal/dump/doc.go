// Package dump prints the files of a database line by line: headers, blocks, records and
// entries, and whether they verify. It reads damaged files too, and writes to none. It
// never shows a key of an encrypted database.
package dump
