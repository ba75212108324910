package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
)

// runHelp explains a command, or lists them all.
func runHelp(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 0, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		printHelp(c.out)
		return nil
	}
	cmd, ok := find(rest[0])
	if !ok {
		return unknownCommand(rest[0])
	}
	if cmd.name == "help" {
		c.explain(c.out)
		return nil
	}
	// A command defines its flags when it runs. With -h it only prints its help.
	if err := cmd.run(ctx, newCall(cmd, c.console), []string{"-h"}); err != flag.ErrHelp {
		return err
	}
	return nil
}

// commandWidth is the width in characters of the column of commands in the help text.
const commandWidth = 32

// printHelp lists the commands and explains what they have in common.
func printHelp(w io.Writer) {
	fmt.Fprint(w, "The stoat command reads, changes, verifies and measures stoat databases.\n\nUsage: stoat COMMAND [flags] [arguments]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-*s %s\n", commandWidth, "stoat "+cmd.name+" "+cmd.args, cmd.short)
	}
	fmt.Fprint(w, `
DIR is the directory of a database. Flags precede DIR. Write -- before DIR if a
KEY or VALUE is spelled like a flag. 'stoat help COMMAND' lists the flags.

Only create, restore and restore-files make a database in DIR. The other commands refuse
a DIR without one.

An encrypted database needs the flag -key-file. Each line of the file is the ID
of a master key, a space, and the key as 64 hexadecimal digits. New databases
and the command rekey take the first key.

On Unix, a command that changes a database checks the owners of its files. If none
of them belongs to the user of the command, it refuses to run. These files are LOCK,
KEYS, manifests, logs, tables and value files. The error names the owner of the newest
manifest, or of LOCK if there is no manifest.

get, scan, changes, estimate, info, stats, checkpoint, backup-files, and keyspaces without
-create and -drop take no lock. They work while another process writes the database, and
see what it has committed. So do check and backup if there is such a process. Each of
these takes a file descriptor for each value file. Without such a process, check keeps
writers out until it ends, and backup does so while it opens the database. salvage always
keeps writers out, and lets readers go on. dump takes no lock. The others, and check
-repair, need the database for themselves.

Exit codes: 0 success, 1 error or missing key, 2 wrong usage, 130 interrupted or hung up,
141 the reader of the output has ended.
`)
}

// runVersion prints the version and commit of this program, and its Go version.
func runVersion(_ context.Context, c *call, args []string) error {
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this program has no build information")
	}
	version, commit := info.Main.Version, ""
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = " commit " + s.Value + commit
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += " with changes"
		}
	}
	fmt.Fprintf(c.out, "stoat %s%s %s\n", version, commit, info.GoVersion)
	return nil
}
