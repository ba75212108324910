package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// A call is one call of a command: its flags, and the console it talks to.
type call struct {
	command
	console
	flags *flag.FlagSet
}

func newCall(cmd command, con console) *call {
	flags := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // parse reports in our words
	return &call{command: cmd, console: con, flags: flags}
}

// A usageError says that a command was called wrongly.
type usageError struct{ command, what string }

func (e usageError) Error() string { return e.what }

// usagef returns a usageError of this command.
func (c *call) usagef(format string, args ...any) error {
	return usageError{c.name, fmt.Sprintf(format, args...)}
}

// parse parses the flags and returns the arguments after them, of which there
// must be least to most; most -1 is any number.
func (c *call) parse(args []string, least, most int) ([]string, error) {
	if err := c.flags.Parse(args); err == flag.ErrHelp {
		c.explain(c.out)
		return nil, err
	} else if err != nil {
		return nil, c.usagef("%v", err)
	}
	rest := c.flags.Args()
	fits := len(rest) >= least && (most < 0 || len(rest) <= most)
	// Behind the first argument nothing is a flag, but it may have been meant as
	// one: a key to be deleted is not what somebody wanted who wrote -prefix.
	literally := len(args) > len(rest) && args[len(args)-len(rest)-1] == "--"
	for _, arg := range rest {
		if c.isFlag(arg) && !literally {
			return nil, c.usagef("%s comes too late: flags go before %s; behind -- it is no flag", arg, c.args)
		}
		if !fits && strings.HasPrefix(arg, "-") && len(arg) > 1 {
			return nil, c.usagef("%s comes too late: flags go before %s", arg, c.args)
		}
	}
	if fits {
		return rest, nil
	}
	if c.args == "" {
		return nil, c.usagef("takes no arguments, got %q", rest)
	}
	return nil, c.usagef("takes %s, got %d arguments", c.args, len(rest))
}

// isFlag reports whether arg would be one of the command's flags if it stood
// before the arguments.
func (c *call) isFlag(arg string) bool {
	name, dashed := strings.CutPrefix(arg, "-")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return dashed && (c.flags.Lookup(name) != nil || name == "h" || name == "help")
}

// explain prints the usage and the flags of the command.
func (c *call) explain(w io.Writer) {
	var flags []*flag.Flag
	c.flags.VisitAll(func(f *flag.Flag) { flags = append(flags, f) })
	line := "usage: stoat " + c.name
	if len(flags) > 0 {
		line += " [flags]"
	}
	if c.args != "" {
		line += " " + c.args
	}
	fmt.Fprintf(w, "%s\n\n%s.\n", line, strings.ToUpper(c.short[:1])+c.short[1:])
	if len(flags) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, f := range flags {
		what, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  %-26s %s\n", strings.TrimSpace("-"+f.Name+" "+what), usage)
	}
}
