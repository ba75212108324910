package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/values"
)

// A Filter decides which values compactions keep. A compaction asks it about the newest
// version of each key that it rewrites, if no open transaction but new ones can see that
// version. It never asks about older versions, nor about a value with operands that are
// not merged yet. A filter sees a value at the latest when that comes to the last level,
// which DB.Compact brings about.
//
// What a filter changes is no write of a transaction. It gets no version, and no
// transaction conflicts with it. An open transaction keeps what it has seen.
//
// Background goroutines call a filter, several at the same time. If it panics, the
// value stays.
type Filter interface {
	// Name names the filter in Options.Filter.
	Name() string
	// Filter decides about one value. With FilterRewrite, the value that it returns
	// replaces the old one; time of expiry and UserMeta stay. key and v must not be used
	// after the call.
	Filter(key []byte, v *FilterValue) (FilterDecision, []byte)
}

// A FilterDecision is the answer of a Filter.
type FilterDecision uint8

const (
	// FilterKeep keeps the value.
	FilterKeep FilterDecision = iota
	// FilterDrop deletes the key.
	FilterDrop
	// FilterRewrite replaces the value.
	FilterRewrite
)

// A FilterValue is the value that a Filter decides about.
type FilterValue struct {
	entry *base.Entry
	read  func() ([]byte, error)
}

// Size returns the length of the value in bytes, without reading the value.
func (v *FilterValue) Size() int64 {
	if v.entry == nil {
		return 0
	}
	if v.entry.Meta.Kind != base.KindPointer {
		return int64(len(v.entry.Value))
	}
	p, err := values.DecodePointer(v.entry.Value)
	if err != nil {
		return 0 // Bytes returns the error
	}
	return int64(p.ValueLen)
}

// Bytes returns the value. Only this call reads a value in a value file. After an error
// the filter should keep the value.
func (v *FilterValue) Bytes() ([]byte, error) {
	if v.read == nil {
		return nil, nil
	}
	return v.read()
}

// ExpiresAt returns the time when the value expires, or the zero time if it never does.
func (v *FilterValue) ExpiresAt() time.Time {
	if v.entry == nil || v.entry.Meta.ExpiresAt == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(v.entry.Meta.ExpiresAt))
}

// UserMeta returns the byte that the option UserMeta attached to the value, or 0.
func (v *FilterValue) UserMeta() byte {
	if v.entry == nil {
		return 0
	}
	return v.entry.Meta.User
}

// Version returns the version of the transaction that wrote the value.
func (v *FilterValue) Version() uint64 {
	if v.entry == nil {
		return 0
	}
	return uint64(v.entry.Seq)
}

// screen returns engine.Options.Screen, or nil if no filter is registered.
func (o *Options) screen() func(filter string, e *base.Entry, value func() ([]byte, error)) (compact.Decision, []byte) {
	if len(o.Filters) == 0 {
		return nil
	}
	filters := map[string]Filter{}
	for _, f := range o.Filters {
		filters[f.Name()] = f
	}
	return func(filter string, e *base.Entry, value func() ([]byte, error)) (answer compact.Decision, rewritten []byte) {
		used := filters[filter]
		if used == nil {
			return compact.ScreenKeep, nil
		}
		defer func() {
			if p := recover(); p != nil {
				answer, rewritten = compact.ScreenKeep, nil
			}
		}()
		switch decision, value := used.Filter(transaction.UserKey(e.Key), &FilterValue{e, value}); {
		case decision == FilterDrop:
			return compact.ScreenDrop, nil
		case decision == FilterRewrite && uint64(len(value)) <= MaxValueSize:
			return compact.ScreenRewrite, value
		}
		return compact.ScreenKeep, nil
	}
}
