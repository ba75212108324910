package main

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// A textFormat is the format of keys and values in arguments and output.
type textFormat struct{ hex bool }

// textFlag defines the flag that selects the format.
func textFlag(c *call) *textFormat {
	t := new(textFormat)
	c.flags.BoolVar(&t.hex, "hex", false, "read and print keys and values in hexadecimal")
	return t
}

// decode returns the bytes of an argument. With -hex it decodes them.
func (t *textFormat) decode(arg string) ([]byte, error) {
	if !t.hex {
		return []byte(arg), nil
	}
	return hex.DecodeString(strings.TrimSpace(arg))
}

// encode appends b to dst for a line of output. Without -hex it escapes
// backslashes and bytes that are not printable text as in Go, so that each line
// is unambiguous.
func (t *textFormat) encode(dst, b []byte) []byte {
	if t.hex {
		return hex.AppendEncode(dst, b)
	}
	quoted := strconv.Quote(string(b))
	return append(dst, strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)...)
}

// A keyFlag is a flag whose argument is a key. to receives the bytes.
type keyFlag struct {
	name, arg string
	to        *[]byte
}

// decodeFlags decodes the arguments of flags. A flag without an argument stays nil.
func (c *call) decodeFlags(text *textFormat, flags ...keyFlag) (err error) {
	for _, f := range flags {
		if f.arg == "" {
			continue
		}
		if *f.to, err = text.decode(f.arg); err != nil {
			return c.usagef("-%s: %v", f.name, err)
		}
	}
	return nil
}
