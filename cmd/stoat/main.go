package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	exitInterrupted = 130 // as shells report a process that SIGINT ended; SIGTERM is no other end
)

func main() {
	os.Exit(run(untilSignal(context.Background()), os.Args[1:], console{os.Stdin, os.Stdout, os.Stderr}))
}

// untilSignal returns a context that the first interrupt, or a wish of the system
// that the process ends, is the end of: what runs ends and cleans up. A second one
// ends the process at once.
func untilSignal(parent context.Context) context.Context {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// A console is what a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
}

// A command is one of the things stoat can do. Its run defines the flags it
// has, parses args and does it.
type command struct {
	name  string
	args  string // what follows the flags
	short string
	run   func(ctx context.Context, c *call, args []string) error
}

// commands lists what stoat can do, in the order of the help.
func commands() []command {
	return []command{
		{"bench", "", "fill a temporary database and measure it", runBench},
		{"get", "DIR KEY", "print the value of a key", runGet},
		{"set", "DIR KEY VALUE", "store a value; VALUE - reads it from the input", runSet},
		{"del", "DIR KEY...", "delete keys, prefixes or a range", runDel},
		{"scan", "DIR", "print keys and values in order", runScan},
		{"stats", "DIR", "print what the database consists of; changes nothing", runStats},
		{"check", "DIR", "verify every byte of the database; changes nothing", runCheck},
		{"checkpoint", "DIR TO", "flush a database and make a copy, which shares its files", runCheckpoint},
		{"compact", "DIR", "give back all space that deleted data takes", runCompact},
		{"collect", "DIR", "give back the space of values that nothing refers to", runCollect},
		{"version", "", "print the version", runVersion},
		{"help", "[COMMAND]", "explain a command", runHelp},
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
		fmt.Fprintf(con.err, "stoat: there is no command %q; `stoat help` lists them\n", name)
		return exitUsage
	}
	out := &output{w: con.out}
	con.out = out
	err := cmd.run(ctx, newCall(cmd, con), args)
	if err == nil {
		err = out.err
	}
	return exitCode(ctx, con, err)
}

// An output keeps the first error of what is printed, so that no command that has
// printed in vain seems to have done it.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// find returns the command of a name.
func find(name string) (command, bool) {
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd, true
		}
	}
	return command{}, false
}

// exitCode prints the error of a command and returns the code it deserves.
func exitCode(ctx context.Context, con console, err error) int {
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(con.err, "stoat %s: %s\n`stoat help %s` explains it\n", usage.command, usage.what, usage.command)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		fmt.Fprintln(con.err, "stoat: interrupted")
		return exitInterrupted
	default:
		fmt.Fprintf(con.err, "stoat: %s\n", strings.TrimPrefix(err.Error(), "stoat: "))
		return exitError
	}
}
