package main

import (
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pieceMax is how many bytes of a value are encoded at once.
const pieceMax = 64 << 10

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

// encodeLong is encode for a value, which may be long. It writes all but the last piece of
// the line to w, and returns that.
func (t *textFormat) encodeLong(w io.Writer, line, value []byte) ([]byte, error) {
	for len(value) > pieceMax {
		n := pieceOf(value)
		line = t.encode(line, value[:n])
		if _, err := w.Write(line); err != nil {
			return line, err
		}
		line, value = line[:0], value[n:]
	}
	return t.encode(line, value), nil
}

// pieceOf returns the length of the first piece of a long value. No piece ends within a
// character.
func pieceOf(value []byte) int {
	for n := pieceMax; n > pieceMax-utf8.UTFMax; n-- {
		if utf8.RuneStart(value[n]) {
			return n
		}
	}
	return pieceMax // these bytes are no character
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
