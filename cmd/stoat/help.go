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
		return c.usagef("there is no command %q", rest[0])
	}
	if cmd.name == "help" {
		c.explain(c.out)
		return nil
	}
	// A command defines its flags when it runs, and -h only explains them.
	if err := cmd.run(ctx, newCall(cmd, c.console), []string{"-h"}); err != flag.ErrHelp {
		return err
	}
	return nil
}

// printHelp lists the commands.
func printHelp(w io.Writer) {
	fmt.Fprint(w, "stoat is an embedded transactional key-value store; this is its command.\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-26s %s\n", "stoat "+cmd.name+" "+cmd.args, cmd.short)
	}
	fmt.Fprint(w, "\nFlags come before DIR, and -- before a DIR, KEY or VALUE that looks like one.\n`stoat help COMMAND` lists them.\n"+
		"get, scan, stats and check work beside others that only read a database, the rest\n"+
		"while nobody else has it open.\n")
}

// runVersion prints what this program was built from.
func runVersion(_ context.Context, c *call, args []string) error {
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this program was built without build information")
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
