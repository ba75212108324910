// Command stoat reads, changes, verifies and measures stoat databases.
//
//	stoat bench                      fill a temporary database and measure it
//	stoat create DIR                 create an empty database
//	stoat get DIR KEY                print the value of a key
//	stoat set DIR KEY VALUE          store a value
//	stoat del DIR KEY...             delete keys, prefixes or a range
//	stoat renew DIR KEY...           give values another expiry time
//	stoat scan DIR                   print keys and values in order
//	stoat changes DIR                print what commits changed, in their order
//	stoat load DIR FILE              store all keys of a file in one commit
//	stoat pack FILE OUT              write lines to a file of sorted entries
//	stoat ingest DIR FILE...         store files of sorted entries in one commit
//	stoat keyspaces DIR              list, create or delete keyspaces
//	stoat configure DIR              change settings of a keyspace
//	stoat estimate DIR               estimate the size of a range of keys
//	stoat info DIR                   describe a database and its files
//	stoat stats DIR                  print the size and structure of a database
//	stoat check DIR                  verify every byte of a database
//	stoat salvage DIR TO             copy what is left of a damaged database
//	stoat dump FILE                  print a file of a database or a backup
//	stoat checkpoint DIR TO          copy a database
//	stoat backup DIR FILE            write a backup of a database
//	stoat restore FILE... DIR        make a database of backups
//	stoat verify-backup FILE...      verify every byte of backups
//	stoat backup-files DIR STORE     copy the new files of a database to a directory
//	stoat restore-files STORE DIR    make a database of a file backup
//	stoat verify-files STORE [ID...] verify every byte of file backups
//	stoat backups STORE              list file backups, and delete old ones
//	stoat compact DIR                reclaim the space of all deleted data
//	stoat collect DIR                reclaim the space of unused values
//	stoat rekey DIR                  protect a database with another master key
//	stoat upgrade DIR                bring a database to the newest format
//	stoat version                    print the version
//	stoat help [COMMAND]             explain a command
//
// Flags follow the command and precede DIR. "--" ends the flags, so that a
// following argument may begin with a dash.
//
// The exit code is 0 after success, and 1 after an error or if a key does not exist. It is
// 2 after a wrong call, and 130 after SIGINT, SIGTERM or SIGHUP. It is 141 if the program that
// reads the output has ended.
//
// Only create, restore and restore-files make a database in DIR. The other commands refuse
// a directory without one, so a mistyped path leaves nothing behind.
//
// get, scan, changes, estimate, info, stats, checkpoint, backup-files, dump, salvage, keyspaces
// without -create and -drop, and check without -repair never change the database. Nor does
// backup, unless the last writer crashed.
//
// All of these but salvage work while another process writes the database. Each of them, except
// dump, takes a file descriptor for each value file. Without such a process, check keeps
// writers out until it ends, and backup does so while it opens the database. salvage always
// keeps writers out, and lets readers go on. The other commands need the database for
// themselves.
package main
