package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// A call is one call of a command: its flags and its console.
type call struct {
	command
	console
	flags *flag.FlagSet
	// keyFile is the value of -key-file, empty if the database is not encrypted.
	keyFile string
	user    int // whose files a command may make; see checkUser
}

func newCall(cmd command, con console) *call {
	flags := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // parse prints the errors
	c := &call{command: cmd, console: con, flags: flags, user: os.Geteuid()}
	if strings.Contains(cmd.args, "DIR") {
		flags.StringVar(&c.keyFile, "key-file", "", "read the master keys of an encrypted database from this `file`")
	}
	return c
}

// A usageError says that the arguments of a command are wrong.
type usageError struct{ command, what string }

func (e usageError) Error() string { return e.what }

// usagef returns a usageError of this command.
func (c *call) usagef(format string, args ...any) error {
	return usageError{c.name, fmt.Sprintf(format, args...)}
}

// parse parses the flags and returns the arguments after them. There must be
// between least and most arguments; a most of -1 means any number.
func (c *call) parse(args []string, least, most int) ([]string, error) {
	if err := c.flags.Parse(args); err == flag.ErrHelp {
		c.explain(c.out)
		return nil, err
	} else if err != nil {
		return nil, c.usagef("%v", err)
	}
	rest := c.flags.Args()
	if err := c.checkEmpty(rest); err != nil {
		return nil, err
	}
	fits := len(rest) >= least && (most < 0 || len(rest) <= most)
	// After the first argument nothing is parsed as a flag. An argument that
	// looks like one is probably a mistake: "del DIR -prefix x" must not delete
	// the keys "-prefix" and "x".
	literally := len(args) > len(rest) && args[len(args)-len(rest)-1] == "--"
	for _, arg := range rest {
		if c.isFlag(arg) && !literally {
			return nil, c.usagef("the flag %s must precede %s; to use it as an argument, write -- before %s", arg, c.args, c.args)
		}
		if !fits && strings.HasPrefix(arg, "-") && len(arg) > 1 {
			return nil, c.usagef("takes %s, got %d arguments; it has no flag %s", c.args, len(rest), arg)
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

// checkEmpty returns an error if a path, a name or an ID is empty. Mostly it comes from a
// variable of a shell that is not set, and would mean the current directory, or nothing.
func (c *call) checkEmpty(args []string) (err error) {
	c.flags.Visit(func(f *flag.Flag) {
		switch what, _ := flag.UnquoteUsage(f); what {
		case "file", "directory", "name", "ID":
			// For changes, an empty keyspace is the default one.
			if f.Value.String() == "" && (f.Name != "keyspace" || c.name != "changes") {
				err = c.usagef("-%s is empty", f.Name)
			}
		}
	})
	if strings.Contains(c.args, "KEY") && len(args) > 0 {
		args = args[:1]
	}
	for i, arg := range args {
		if arg == "" {
			return c.usagef("argument %d of %s is empty", i+1, c.args)
		}
	}
	return err
}

// given returns the names of the flags on the command line.
func (c *call) given() map[string]bool {
	given := map[string]bool{}
	c.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

// isFlag reports whether arg would be one of the command's flags before the
// other arguments.
func (c *call) isFlag(arg string) bool {
	name, dashed := strings.CutPrefix(arg, "-")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return dashed && (c.flags.Lookup(name) != nil || name == "h" || name == "help")
}

// explain prints the usage, the details and the flags of the command.
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
	if c.details != "" {
		fmt.Fprintf(w, "\n%s\n", c.details)
	}
	if len(flags) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, f := range flags {
		what, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			usage += " (default " + f.DefValue + ")"
		}
		name := strings.TrimSpace("-" + f.Name + " " + what)
		if len(name) > flagWidth {
			name += "\n" + strings.Repeat(" ", flagWidth+2)
		}
		fmt.Fprintf(w, "  %-*s %s\n", flagWidth, name, usage)
	}
}

// flagWidth is the width in characters of the column of flags in a help text. A
// longer flag has its explanation on the next line.
const flagWidth = 26
