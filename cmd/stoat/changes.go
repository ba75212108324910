package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/fault"
)

// runChanges prints what commits changed, a line for each change.
func runChanges(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
	var (
		o              feed.Options
		prefix         string
		wait, asObject bool
	)
	c.flags.Uint64Var(&o.After, "after", 0, "print only commits after this `version`")
	c.flags.StringVar(&prefix, "prefix", "", "print only changes of keys that begin with this `text`")
	c.flags.Func("keyspace", "print only changes of the keyspace with this `name`, '' for the default one; may be repeated", func(name string) error {
		o.Keyspaces = append(o.Keyspaces, name)
		return nil
	})
	c.flags.BoolVar(&wait, "wait", false, "go on with later commits, until interrupted")
	c.flags.BoolVar(&asObject, "json", false, "print JSON objects, with keys and values in base64")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if err := c.decodeFlags(text, keyFlag{"prefix", prefix, &o.Prefix}); err != nil {
		return err
	}
	if asObject && text.hex {
		return c.usagef("use either -hex or -json, not both")
	}
	p := changePrinter{text: text, out: bufio.NewWriter(c.out)}
	if asObject {
		p.objects = json.NewEncoder(p.out)
	}
	db, err := c.openBeside(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		for _, name := range o.Keyspaces {
			if _, _, err := (&keyspaceChoice{name: name}).find(db); err != nil {
				return err
			}
		}
		err := printChanges(ctx, db, o, wait, &p)
		return errors.Join(err, p.out.Flush())
	})
}

// printChanges prints the commits of a feed. It ends with the newest commit, unless wait is
// set.
func printChanges(ctx context.Context, db *stoat.DB, o feed.Options, wait bool, p *changePrinter) error {
	var newest uint64
	if err := db.View(func(tx stoat.Txn) error { newest = tx.ReadVersion(); return nil }); err != nil {
		return err
	}
	if o.After == newest && !wait {
		return nil
	}
	for commit, err := range db.Subscribe(ctx, o) {
		if err != nil {
			return err
		}
		for change, err := range commit.Changes {
			if err == nil {
				err = fault.Guard(func() error { return p.print(&commit, &change) })
			}
			if err != nil {
				return err
			}
		}
		if commit.Version >= newest {
			if !wait {
				break
			}
			if err := p.out.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A changePrinter prints changes as lines of text or as objects.
type changePrinter struct {
	text    *textFormat
	out     *bufio.Writer
	objects *json.Encoder // nil for text
	line    []byte
}

// A changeObject is a change as an object.
type changeObject struct {
	Version    uint64 `json:"version"`
	Time       string `json:"time"`
	Kind       string `json:"kind"`
	Keyspace   string `json:"keyspace"`
	KeyspaceID uint32 `json:"keyspace_id"`
	Key        []byte `json:"key"`
	End        []byte `json:"end,omitempty"`
	Value      []byte `json:"value,omitempty"`
	ExpiresAt  string `json:"expires_at,omitempty"`
	UserMeta   byte   `json:"user_meta,omitempty"`
	Timestamp  uint64 `json:"timestamp,omitempty"`
}

// timeText formats a time as in JSON. Package json refuses years after 9999.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (p *changePrinter) print(commit *feed.Commit, change *feed.Change) error {
	if p.objects != nil {
		o := changeObject{commit.Version, timeText(commit.Time), change.Kind.String(), change.Keyspace, change.KeyspaceID,
			change.Key, change.End, change.Value, "", change.UserMeta, change.Timestamp}
		if !change.ExpiresAt.IsZero() {
			o.ExpiresAt = timeText(change.ExpiresAt)
		}
		return p.objects.Encode(&o)
	}
	if change.Kind == feed.DropKeyspace {
		name := change.Keyspace
		if name == "" {
			name = fmt.Sprintf("(number %d)", change.KeyspaceID)
		} else {
			name = keyspaceText(name)
		}
		_, err := fmt.Fprintf(p.out, "%d\t%s\t%s\n", commit.Version, change.Kind, name)
		return err
	}
	p.line = fmt.Appendf(p.line[:0], "%d\t%s\t%s\t", commit.Version, change.Kind, keyspaceText(change.Keyspace))
	p.line = p.text.encode(p.line, change.Key)
	switch change.Kind {
	case feed.DeleteRange:
		p.line = p.text.encode(append(p.line, '\t'), change.End)
	case feed.Set, feed.Merge:
		var err error
		if p.line, err = p.text.encodeLong(p.out, append(p.line, '\t'), change.Value); err != nil {
			return err
		}
	}
	if change.Timestamp != 0 {
		p.line = fmt.Appendf(p.line, "\tat %d", change.Timestamp)
	}
	if !change.ExpiresAt.IsZero() {
		p.line = fmt.Appendf(p.line, "\tuntil %s", timeText(change.ExpiresAt))
	}
	_, err := p.out.Write(append(p.line, '\n'))
	return err
}
