package main

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/stoatdb/stoat"
)

// A moment is the value of the flag -at: a timestamp, if it is set.
type moment struct {
	set bool
	at  uint64
}

// momentFlag defines the flag that chooses the timestamp in the keyspace k.
func momentFlag(c *call, k *keyspaceChoice, what string) *moment {
	m := new(moment)
	k.when = m
	c.flags.Var(m, "at", what+" this `timestamp`, in a keyspace with timestamps")
	return m
}

func (m *moment) String() string {
	if m == nil || !m.set {
		return ""
	}
	return strconv.FormatUint(m.at, 10)
}

// Set implements flag.Value.
func (m *moment) Set(s string) (err error) {
	m.set = true
	if m.at, err = strconv.ParseUint(s, 10, 64); err != nil {
		return fmt.Errorf("want a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	return nil
}

// A store is a transaction, perhaps at a timestamp.
type store interface {
	GetItem(key []byte) (stoat.Item, error)
	SetReader(key []byte, r io.Reader, opts ...stoat.SetOption) error
	Delete(key []byte) error
}

// of returns tx at the moment.
func (m *moment) of(tx stoat.Txn) store {
	if m.set {
		return tx.At(m.at)
	}
	return tx
}

// A cursor is an iterator, perhaps at a timestamp.
type cursor interface {
	Next() bool
	Valid() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// iterate returns an iterator of tx at the moment.
func (m *moment) iterate(tx stoat.Txn, o stoat.IterOptions) cursor {
	if m.set {
		return tx.At(m.at).Iterator(o)
	}
	return tx.Iterator(o)
}
