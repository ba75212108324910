package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130 // the code of shells for SIGINT; also used for SIGTERM and SIGHUP
	exitPipe        = 141 // the code of shells for SIGPIPE
)

func main() {
	os.Exit(run(untilSignal(context.Background()), os.Args[1:], console{os.Stdin, os.Stdout, os.Stderr}))
}

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP cancels, so that
// the command ends and cleans up. A second signal ends the process at once.
func untilSignal(parent context.Context) context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	// A write to a closed pipe is an error, as for all other files. It does not end the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}

// A command is one command of stoat. Its run function defines the flags, parses
// args and executes the command.
type command struct {
	name    string
	args    string // the arguments after the flags
	short   string // one line for the list of commands
	details string // further lines for the help of the command
	run     func(ctx context.Context, c *call, args []string) error
}

// commands lists all commands in the order of the help.
func commands() []command {
	return []command{
		{"bench", "", "fill a temporary database and measure it", `It verifies every answer of the database and removes the database at the end.
With -overwrite it measures space, and reads during overwrites, instead.`, runBench},
		{"create", "DIR", "create an empty database", `It also creates DIR and its missing parents. It is an error if DIR holds a
database already. With -key-file the database is encrypted.`, runCreate},
		{"get", "DIR KEY", "print the value of a key", `It prints the bytes of the value and adds no newline. With -hex it prints the
value in hexadecimal, as a line.`, runGet},
		{"set", "DIR KEY VALUE", "store a value", `A VALUE of - means standard input.`, runSet},
		{"del", "DIR KEY...", "delete keys, prefixes or a range", `It deletes all KEYs in one transaction. A KEY that does not exist is no error.
With -prefix, each KEY is a prefix and has its own transaction.`, runDel},
		{"renew", "DIR KEY...", "give values another expiry time", `It does so in one transaction, without writing the values again. After an error,
such as for a KEY that does not exist, nothing is changed.`, runRenew},
		{"scan", "DIR", "print keys and values in order", `It prints a line for each key: the key, a tab and the value. Backslashes and
bytes that are not printable text are escaped as in Go, unless -hex is given.`, runScan},
		{"changes", "DIR", "print what commits changed, in their order", `It prints a line for each change: the version of the commit, the kind, the keyspace,
the key, and the value or the end of a range, with tabs between them. Text is as for
scan. It works while another process writes the database. The database has the commits
that are not in tables yet, and those that 'stoat configure -change-retention' keeps.
All lines of a commit have its version. To resume after a kill, which may cut off the
last commit, use -after with the version of the last line minus 1. Skip the lines that
you have.`, runChanges},
		{"load", "DIR FILE", "store all keys of a file in one commit", `Each line is a key, a tab and a value, escaped as scan prints them. A FILE of -
means standard input. Of equal keys, the last one counts. With -sorted, the keys must
ascend, and are never written twice. A line has at most 1 GiB. After an error, no key
is stored, unless it has printed the number of keys, or that they are stored. If the
error says that the database takes no more writes, look whether the keys are there.`, runLoad},
		{"pack", "FILE OUT", "write lines to a file of sorted entries", `It needs no database. Lines are as for load, and their keys ascend. The command
ingest takes the new file OUT into a database.`, runPack},
		{"ingest", "DIR FILE...", "store files of sorted entries in one commit", `It verifies every byte. The ranges of keys of the FILEs must not overlap. After an
error, no key is stored, unless it has printed the number of keys, or that they are
stored. If the error says that the database takes no more writes, look whether the
keys are there.`, runIngest},
		{"keyspaces", "DIR", "list, create or delete keyspaces", `It lists all keyspaces with their settings. With -create or -drop it changes them
instead, and needs the database for itself.`, runKeyspaces},
		{"configure", "DIR", "change settings of a keyspace", `The database stores the settings. They hold for programs that open it without their
own. 'stoat keyspaces' prints them.`, runConfigure},
		{"estimate", "DIR", "estimate the size of a range of keys", `It reads only indexes, so it is fast for any range. With -split it prints keys that
split the range instead.`, runEstimate},
		{"info", "DIR", "describe a database and its files", `It prints the files by kind, the master key, the format, and about how many keys each
keyspace has. If the database cannot be opened, such as without the flag -key-file, it
prints what it can, and exits with 1.`, runInfo},
		{"stats", "DIR", "print the size and structure of a database", `The compaction debt is the bytes that compactions must write until the tree is in
shape.`, runStats},
		{"check", "DIR", "verify every byte of a database", `It prints each problem as a line, and exits with 1 if there is one. If it cannot read
on, it says so after the problems so far. If no process has the database open to write,
none can open it so until check ends. A process that has it open already writes on.

With -repair it first rebuilds what the rest of a table determines: hash indexes,
indexes of first keys (fences), checksums, properties and footers. It also corrects one
wrong bit in the index of blocks. It writes the entries to a new table, which then takes
the place of the old one. It needs the database for itself, an intact manifest and
intact data keys. It leaves damaged keys, values, range tombstones, value files, logs and
manifests as they are. The command salvage copies what is left of them.`, runCheck},
		{"salvage", "DIR TO", "copy what is left of a damaged database", `It changes nothing in DIR, and makes a new database in TO, which must not exist. It
prints what is lost by file and range of keys, and exits with 1 if anything is lost.
In a lost range, older versions and deleted keys may return.

The manifest names the live files. If it is lost, or with -all-files, every file
counts. A lost manifest alone makes the exit code 1, unless -all-files is given.
Data from obsolete files, such as deleted keys, may return. Operands of merges may
count twice. Keyspaces get names such as keyspace-3 and default settings.

A table whose footer is lost needs the manifest. Without the file KEYS, nothing of an
encrypted database can be read.`, runSalvage},
		{"dump", "FILE", "print a file of a database or a backup", `FILE is a manifest, a table, a value file, a log segment, KEYS or LOCK, under its own
name. Or it is a backup, a file of sorted entries, or a list of files in STORE/lists,
under any name. It prints a line for each part, with its checksum, and never prints a
secret. Of a damaged file it prints what verifies. The last line of a backup, a file of
sorted entries or a list tells whether the file is whole.`, runDump},
		{"checkpoint", "DIR TO", "copy a database", `TO must not exist. The copy shares its files with DIR by hard links, so it takes
little time and no space at first. On another file system the files are copied.
It works while another process writes the database, and changes nothing in DIR.`, runCheckpoint},
		{"backup", "DIR FILE", "write a backup of a database", `It writes a snapshot to the new FILE, or to standard output if FILE is -. With
-since it writes only what changed after an earlier backup, which it first reads to
its end. A backup is not encrypted. It keeps writers out only while it opens the database.
After a crash of the last writer it first needs the database for itself. If it then
refuses to run as your user, open the database once as its own user. If a process that
writes the database reports ErrFailed, begin a new chain with a backup without -since.`, runBackup},
		{"restore", "FILE... DIR", "make a database of backups", `FILEs are a full backup and the backups after it, in order; - is standard input.
DIR must not exist. The command works in DIR.restore. After an interruption, run the
same command again to continue, or remove DIR.restore.`, runRestore},
		{"verify-backup", "FILE...", "verify every byte of backups", `FILEs are in order. It fails if one does not follow the one before, or needs what
that one lacks. Without an error, it prints a line for each FILE. The first FILE need
not be a full backup.`, runVerifyBackup},
		{"backup-files", "DIR STORE", "copy the new files of a database to a directory", `STORE is a directory. The first backup creates it, and says so. Use one for each
database. Files that an earlier backup has copied are not copied again, and yet each
backup is complete. With -verify, damaged ones are copied again. Files of an encrypted
database stay encrypted. If it prints the backup, that is complete, even after an error.
It works while another process writes the database. After a kill of 'stoat backups -keep'
it waits for up to two minutes.

While it runs, DIR.backup-files shares the files of DIR by hard links. If DIR is a symbolic
link, DIR.backup-files lies beside the directory to which DIR leads. -temp names another
directory in its place, which only backups of DIR may use. If DIR is a mount point or its parent is read-only, use
-temp. On another file system the files are copied, and need space there.`, runBackupFiles},
		{"restore-files", "STORE DIR", "make a database of a file backup", `It restores the newest backup of STORE, and compares every file with its checksum.
DIR must not exist. The command works in DIR.restore. After an interruption, run the
same command again to continue, or remove DIR.restore. Without -key-file, all databases
restored of one backup of an encrypted database have the same identity.`, runRestoreFiles},
		{"verify-files", "STORE [ID...]", "verify every byte of file backups", `Without an ID it verifies the newest backup.`, runVerifyFiles},
		{"backups", "STORE", "list file backups, and delete old ones", `It prints a line for each backup, the oldest first. With -keep N it first deletes all
but the newest N backups, of whatever database, and all files that no backup has. If it
cannot read the list of a backup to keep, it deletes nothing. Then delete that backup with
-delete. If STORE has no list at all, it deletes no files: bring the lists back, or remove
STORE if no backup in it is of use. After a new backup, -keep deletes the files of backups
whose lists are missing. After a kill of backup-files, -keep deletes no files for two minutes, and then
waits for two.`, runBackups},
		{"compact", "DIR", "reclaim the space of all deleted data", `It rewrites the tables without deleted, overwritten and expired data. Without
-from and -to it also rewrites value files. Background jobs do this by themselves where
it is worth its cost. So the command is useful mainly for a database that will only be
read.`, runCompact},
		{"collect", "DIR", "reclaim the space of unused values", `It rewrites value files without the values that no table refers to. Keys deleted
recently may keep their values until a compaction; the command compact does both.`, runCollect},
		{"rekey", "DIR", "protect a database with another master key", `The first key of the key file becomes the master key. The file must also have the
current master key. No data is rewritten. Other commands keep the master key. File
backups, checkpoints and other copies made before need the old key.`, runRekey},
		{"upgrade", "DIR", "bring a database to the newest format", `Other commands and programs open old formats too, and change none. After the
upgrade, an older stoat may be unable to open the database.`, runUpgrade},
		{"version", "", "print the version", "", runVersion},
		{"help", "[COMMAND]", "explain a command", "", runHelp},
	}
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, con console) int {
	if len(args) == 0 {
		printHelp(con.err)
		return exitUsage
	}
	name, args := args[0], args[1:]
	switch name {
	case "-h", "-help", "--help":
		name, args = "help", nil
	case "-version", "--version":
		name, args = "version", nil
	}
	cmd, ok := find(name)
	if !ok {
		return exitCode(ctx, con, unknownCommand(name))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &output{w: con.out, failed: cancel}
	con.out = out
	con.in = &interruptible{ctx: ctx, from: con.in}
	err := cmd.run(ctx, newCall(cmd, con), args)
	if out.err != nil {
		err = out.err
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitPipe
	}
	return exitCode(ctx, con, err)
}

// An unknownCommand is the name of a command that does not exist.
type unknownCommand string

func (name unknownCommand) Error() string {
	return fmt.Sprintf("there is no command %q; 'stoat help' lists the commands", string(name))
}

// find returns the command with the given name.
func find(name string) (command, bool) {
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd, true
		}
	}
	return command{}, false
}

// exitCode prints the error of a command and returns its exit code.
func exitCode(ctx context.Context, con console, err error) int {
	var usage usageError
	var unknown unknownCommand
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &unknown):
		fmt.Fprintf(con.err, "stoat: %v\n", err)
		return exitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(con.err, "stoat %s: %s\n'stoat help %s' explains the command\n", usage.command, usage.what, usage.command)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(con.err, "stoat: interrupted")
		return exitInterrupted
	default:
		fmt.Fprintf(con.err, "stoat: %s\n", strings.TrimPrefix(err.Error(), "stoat: "))
		return exitError
	}
}
