package stoat

import (
	"fmt"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/values"
)

// A Filter decides which values compactions keep. A compaction asks it about the newest
// version of each key that it rewrites. It does not ask if an older snapshot of an open
// transaction also shows that version. It never asks about older versions, nor about a
// value with operands that are not merged yet.
//
// DB.Compact asks the filter about all values of its range, also about those that lie in
// the last level already. So it rewrites all tables with keys of a keyspace with a filter.
// It passes over a value that an older snapshot also shows. The filter then sees the
// value only when another compaction rewrites its table. So run DB.Compact without long
// transactions if the filter must see every value.
//
// What a filter changes is no write of a transaction. It gets no version, and no
// transaction conflicts with it. An open transaction keeps what it has seen. Change feeds
// and streams of changes do not show it. Each incremental backup of a keyspace with a
// filter therefore has all values of the keyspace; see DB.Backup.
//
// Background goroutines call a filter, several at the same time. Compact, DropPrefix and
// DropAll call it on the goroutine of their caller, too. If it panics or returns
// what no value can be, the value stays, and the database reports a Warning. It reports at
// most one a minute for each filter. A filter must not end its goroutine, as
// testing.T.FailNow does: that would also end a background job.
//
// A filter may read the database. It must not call DB.Close, Compact, Collect, DropPrefix
// or DropAll: they would wait for the compaction that waits for the filter.
type Filter interface {
	// Name names the filter in Options.Filter. It must not be "none".
	Name() string
	// Filter decides about one value. With FilterRewrite, the value that it returns
	// replaces the old one; expiry time and UserMeta stay. key and v must not be used
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
	entry base.Entry
	read  func() ([]byte, error)
}

// Size returns the length of the value in bytes, without reading the value.
func (v *FilterValue) Size() int64 {
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
func (v *FilterValue) ExpiresAt() time.Time { return base.ExpiryTime(v.entry.Meta.ExpiresAt) }

// UserMeta returns the byte that the option UserMeta attached to the value, or 0.
func (v *FilterValue) UserMeta() byte { return v.entry.Meta.User }

// Version returns the version of the transaction that wrote the value.
func (v *FilterValue) Version() uint64 { return uint64(v.entry.Seq) }

// filterWarningEvery is the least time between two warnings about one filter.
const filterWarningEvery = time.Minute

// A screener asks the filters of the program, and reports those that fail.
type screener struct {
	filters map[string]Filter
	clock   Clock
	report  event.Sink

	mu     sync.Mutex
	warned map[string]time.Time // the last warning about each filter
}

// screen returns engine.Options.Screen, or nil if no filter is registered.
func (o *Options) screen(report event.Sink) func(filter string, e *base.Entry, value func() ([]byte, error)) (compact.Decision, []byte) {
	if len(o.Filters) == 0 {
		return nil
	}
	s := &screener{filters: map[string]Filter{}, clock: o.Clock, report: report, warned: map[string]time.Time{}}
	for _, f := range o.Filters {
		s.filters[f.Name()] = f
	}
	return s.screen
}

// screen asks the filter with a name. It keeps the value if the filter fails.
func (s *screener) screen(filter string, e *base.Entry, value func() ([]byte, error)) (answer compact.Decision, rewritten []byte) {
	used := s.filters[filter]
	if used == nil {
		return compact.ScreenKeep, nil
	}
	defer func() {
		if p := recover(); p != nil {
			s.warn(filter, fmt.Errorf("it panicked: %v", p))
			answer, rewritten = compact.ScreenKeep, nil
		}
	}()
	decision, replacement := used.Filter(transaction.UserKey(e.Key), &FilterValue{*e, value})
	answer, err := screened(decision, uint64(len(replacement)))
	switch {
	case err != nil:
		s.warn(filter, err)
	case answer == compact.ScreenRewrite:
		rewritten = replacement
	}
	return answer, rewritten
}

// screened returns what a compaction does after the decision of a filter, which may have
// returned a value of n bytes.
func screened(decision FilterDecision, n uint64) (compact.Decision, error) {
	switch {
	case decision > FilterRewrite:
		return compact.ScreenKeep, fmt.Errorf("it returned the unknown decision %d", decision)
	case decision == FilterRewrite && n > MaxValueSize:
		return compact.ScreenKeep, fmt.Errorf("%w: it returned %d bytes, of at most %d", ErrValueTooLarge, n, uint64(MaxValueSize))
	case decision == FilterRewrite:
		return compact.ScreenRewrite, nil
	case decision == FilterDrop:
		return compact.ScreenDrop, nil
	}
	return compact.ScreenKeep, nil
}

// warn reports that a filter failed, unless it did so within the last minute.
func (s *screener) warn(filter string, why error) {
	now := s.clock.Now()
	s.mu.Lock()
	last, told := s.warned[filter]
	told = told && now.Sub(last).Abs() < filterWarningEvery // the clock may go back
	if !told {
		s.warned[filter] = now
	}
	s.mu.Unlock()
	if !told {
		s.report(event.Warning{What: fmt.Sprintf("the compaction filter %q failed, so the value stays", filter), Err: why})
	}
}
