package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stoatdb/stoat"
)

// lineMax is the length of the longest line that load reads, in bytes.
const lineMax = 1 << 30

// runLoad loads the lines of a file as one commit.
func runLoad(ctx context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	when := momentFlag(c, space, "load values at")
	var sorted, asJSON bool
	var ttl time.Duration
	c.flags.BoolVar(&sorted, "sorted", false, "the keys ascend, so that the command need not sort them")
	c.flags.BoolVar(&asJSON, "json", false, `each line is an object such as {"key": "a", "value": "b"}`)
	c.flags.DurationVar(&ttl, "ttl", 0, "let the values expire after this `time`, such as 90s or 24h")
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	if ttl < 0 {
		return c.usagef("-ttl is %v, want a positive time", ttl)
	}
	in, err := c.input(ctx, rest[1])
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	decode := text.line
	if asJSON {
		decode = text.object
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		ks, err := space.of(db)
		if err != nil {
			return err
		}
		o := stoat.IngestOptions{Keyspace: ks, Timestamp: when.at}
		if ttl > 0 {
			o.Options = append(o.Options, stoat.TTL(ttl))
		}
		load := db.BulkLoad
		if sorted {
			load = db.IngestEntries
		}
		done, err := load(ctx, linesOf(in, decode), o)
		if err != nil {
			return err
		}
		c.printStored(done.Entries, "loaded")
		return nil
	})
}

// printStored prints how many keys are stored. If that fails, it says on standard error that
// they are stored: the error of the command only tells about the output.
func (c *call) printStored(keys int64, how string) {
	if _, err := fmt.Fprintf(c.out, "%d keys %s\n", keys, how); err != nil {
		fmt.Fprintln(c.err, "stoat: the keys are stored, but the output failed")
	}
}

// linesOf yields what decode makes of the lines of r.
func linesOf(r io.Reader, decode func(line []byte) (stoat.Entry, error)) iter.Seq2[stoat.Entry, error] {
	return func(yield func(stoat.Entry, error) bool) {
		lines := bufio.NewReaderSize(r, 64<<10)
		var line []byte
		for number := 1; ; number++ {
			var entry stoat.Entry
			var err error
			if line, err = readLine(lines, line[:0]); err == io.EOF {
				return
			}
			if err == nil {
				entry, err = decode(line)
			}
			if err != nil {
				yield(stoat.Entry{}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// readLine appends the next line of r to line, without its end. It returns io.EOF if there
// is none. An error cuts off the last line. The time that it takes is linear in the length.
func readLine(r *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > lineMax {
			return line, fmt.Errorf("it is longer than %d bytes", lineMax)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0:
			err = nil
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), err
	}
}

// line decodes a key, a tab and a value, as scan prints them.
func (t *textFormat) line(line []byte) (e stoat.Entry, err error) {
	key, value, found := bytes.Cut(line, []byte("\t"))
	if !found {
		return e, errors.New("there is no tab between a key and a value")
	}
	if e.Key, err = t.unescape(string(key)); err == nil {
		e.Value, err = t.unescape(string(value))
	}
	return e, err
}

// object decodes a JSON object with a key and a value.
func (t *textFormat) object(line []byte) (e stoat.Entry, err error) {
	// Decode would take names in another case, and one of several fields of a name. Tokens show all.
	d := json.NewDecoder(bytes.NewReader(line))
	var tokens []json.Token
	for len(tokens) <= 6 { // a brace, two names with values, a brace
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return e, fmt.Errorf(`want one object with one "key" and one "value": %w`, err)
		}
		tokens = append(tokens, token)
	}
	fields := map[json.Token]json.Token{}
	if len(tokens) == 6 && tokens[0] == json.Delim('{') && tokens[5] == json.Delim('}') {
		fields[tokens[1]], fields[tokens[3]] = tokens[2], tokens[4]
	}
	key, isKey := fields["key"].(string)
	value, isValue := fields["value"].(string)
	if !isKey || !isValue {
		return e, errors.New(`want one object with one "key" and one "value"`)
	}
	if !utf8.Valid(line) || hasHalf(line) { // the decoder would replace bytes
		return e, errors.New("the object is not UTF-8; use -hex for other bytes")
	}
	if e.Key, err = t.decode(key); err == nil {
		e.Value, err = t.decode(value)
	}
	return e, err
}

// hasHalf reports whether a string in a line of JSON escapes half a surrogate pair. The decoder
// puts U+FFFD in its place.
func hasHalf(line []byte) bool {
	for {
		i := bytes.IndexByte(line, '\\')
		if i < 0 {
			return false
		}
		first := codeUnit(line[i:])
		if first < 0 {
			line = line[i+2:] // another escape
			continue
		}
		line = line[i+unitSize:]
		if utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, codeUnit(line)) == utf8.RuneError {
				return true
			}
			line = line[unitSize:]
		}
	}
}

// unitSize is the length of an escaped code unit of UTF-16, such as \u00e9, in bytes.
const unitSize = 6

// codeUnit returns the code unit whose escape begins the text, or -1 if none does.
func codeUnit(text []byte) rune {
	if len(text) < unitSize || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:unitSize]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// unescape is the inverse of encode.
func (t *textFormat) unescape(s string) ([]byte, error) {
	if t.hex {
		return t.decode(s)
	}
	if !utf8.ValidString(s) { // Unquote would replace bytes
		return nil, fmt.Errorf("%.40q is not UTF-8; escape other bytes as in Go, such as \\xe9", s)
	}
	raw, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		return nil, fmt.Errorf("%.40q is not escaped as in Go", s)
	}
	return []byte(raw), nil
}
