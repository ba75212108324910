// Command stoat reads, changes, verifies and measures stoat databases.
//
//	stoat bench                 fill a temporary database and measure it
//	stoat create DIR            create an empty database
//	stoat get DIR KEY           print the value of a key
//	stoat set DIR KEY VALUE     store a value
//	stoat del DIR KEY...        delete keys, prefixes or a range
//	stoat scan DIR              print keys and values in order
//	stoat keyspaces DIR         list, create or delete keyspaces
//	stoat stats DIR             print the size and structure of a database
//	stoat check DIR             verify every byte of a database
//	stoat salvage DIR TO        copy what is left of a damaged database
//	stoat dump FILE             print a file of a database
//	stoat checkpoint DIR TO     copy a database
//	stoat compact DIR           reclaim the space of all deleted data
//	stoat collect DIR           reclaim the space of unused values
//	stoat rekey DIR             protect a database with another master key
//	stoat upgrade DIR           bring a database to the newest format
//	stoat version               print the version
//	stoat help [COMMAND]        explain a command
//
// Flags follow the command and precede DIR. "--" ends the flags, so that a
// following argument may begin with a dash.
//
// The exit code is 0 after success, 1 after an error or if a key does not exist,
// 2 after a wrong call, and 130 after SIGINT or SIGTERM.
//
// Only create and bench create a database. The other commands refuse a directory
// without one, so a mistyped path leaves nothing behind.
//
// get, scan, keyspaces, stats, check without -repair, salvage and dump never change the
// database. get, scan, keyspaces, stats and dump take no lock, and run beside a process
// that writes the database. check does so if there is such a process; otherwise check and
// salvage lock the database, beside other readers. The other commands need the database
// for themselves.
package main
