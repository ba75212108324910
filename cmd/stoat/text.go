package main

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// A textFormat says how keys and values are written in arguments and lines.
type textFormat struct{ hex bool }

// textFlag defines the flag that chooses the format.
func textFlag(c *call) *textFormat {
	t := new(textFormat)
	c.flags.BoolVar(&t.hex, "hex", false, "keys and values are written in hexadecimal digits")
	return t
}

// decode returns the bytes of an argument: as they are, or of their digits.
func (t *textFormat) decode(arg string) ([]byte, error) {
	if !t.hex {
		return []byte(arg), nil
	}
	return hex.DecodeString(strings.TrimSpace(arg))
}

// encode appends b to dst for a line of output. Without -hex, bytes that are
// not printable text are escaped as in Go, and so is the backslash, so that
// every line can be read back without doubt.
func (t *textFormat) encode(dst, b []byte) []byte {
	if t.hex {
		return hex.AppendEncode(dst, b)
	}
	quoted := strconv.Quote(string(b))
	return append(dst, strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)...)
}
