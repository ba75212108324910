package dump

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// An output writes lines, as text or as JSON. It keeps its first error.
type output struct {
	ctx  context.Context // its end is the error of the next line
	w    io.Writer
	json bool
	hex  bool
	err  error
}

// line writes a line. The pairs are names and values. A value that is nil is left out.
func (o *output) line(kind string, pairs ...any) error {
	if o.err == nil {
		o.err = o.ctx.Err()
	}
	if o.err != nil {
		return o.err
	}
	b := []byte(kind)
	if o.json {
		b = strconv.AppendQuote([]byte(`{"line":`), kind)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := strings.ReplaceAll(pairs[i].(string), " ", "-")
		value, ok := o.value(pairs[i+1])
		if !ok {
			continue
		}
		if o.json {
			var encoded []byte
			if encoded, o.err = json.Marshal(value); o.err != nil {
				return o.err
			}
			b = append(strconv.AppendQuote(append(b, ','), name), ':')
			b = append(b, encoded...)
			continue
		}
		b = fmt.Appendf(b, " %s=%v", name, value)
	}
	if o.json {
		b = append(b, '}')
	}
	_, o.err = o.w.Write(append(b, '\n'))
	return o.err
}

// value returns the form of a value in the output, and false for one to leave out.
func (o *output) value(v any) (any, bool) {
	switch v := v.(type) {
	case nil:
		return nil, false
	case error:
		return o.text(v.Error()), true
	case []byte:
		if o.hex {
			return hex.EncodeToString(v), true
		}
		if o.json {
			return escaped(v), true
		}
		return strconv.Quote(string(v)), true
	case string:
		return o.text(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), true
	}
	return v, true
}

// text returns a text as it is in JSON, and with quotes elsewhere.
func (o *output) text(s string) string {
	if o.json {
		return s
	}
	return strconv.Quote(s)
}

// escaped returns bytes as text. Bytes that are not printable are escaped as in Go.
func escaped(b []byte) string {
	s := strconv.Quote(string(b))
	return s[1 : len(s)-1]
}

// number formats a number without an order, such as a salt.
func number(n uint64) string { return fmt.Sprintf("%#016x", n) }

// verdict says whether something verifies.
func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "bad"
}

// failure returns err as a value of a line, nil if there is none.
func failure(err error) any {
	if err == nil {
		return nil
	}
	return err
}
