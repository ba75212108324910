// Command stoat measures, reads and changes stoat databases.
//
//	stoat bench                 fill a temporary database and measure it
//	stoat get DIR KEY           print a value
//	stoat set DIR KEY VALUE     store a value
//	stoat del DIR KEY...        delete keys, prefixes or a range
//	stoat scan DIR              print keys and values in order
//	stoat stats DIR             print what the database consists of
//	stoat check DIR             verify every byte of it
//	stoat checkpoint DIR TO     flush it and make a copy, which shares its files
//	stoat compact DIR           give back all space that deleted data takes
//	stoat collect DIR           give back the space of values that nothing refers to
//	stoat version               print the version
//	stoat help [COMMAND]        explain
//
// Flags come between the command and DIR; "--" ends them, so that a key may look
// like one. It exits with 0 when all went well, 1 when something went wrong or
// was not found, 2 when it was called wrongly and 130 when SIGINT or SIGTERM
// ended it.
//
// get, scan, stats and check open a database to read it, beside others that do so,
// and change nothing. The rest need it for themselves.
package main
