package workload

import (
	"fmt"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A probe reads single keys for one goroutine and checks the answers. It has one
// callback for all reads, so that the harness does not allocate per read.
type probe struct {
	reader  stores.Reader
	keys    Keys
	values  Values
	scratch []byte // for checks of whole values; nil checks only their ends

	text     Key
	number   uint64
	version  uint64
	callback func([]byte) error
}

func (r *Run) newProbe(s stores.Store, whole bool) (*probe, error) {
	reader, err := s.NewReader()
	if err != nil {
		return nil, fmt.Errorf("new reader: %w", err)
	}
	p := &probe{reader: reader, keys: r.population.Keys, values: r.population.Values}
	if whole {
		p.scratch = make([]byte, p.values.Size)
	}
	p.callback = p.check
	return p, nil
}

func (p *probe) check(value []byte) (err error) {
	if p.scratch != nil {
		p.version, err = p.values.CheckWhole(value, p.number, p.scratch)
	} else {
		p.version, err = p.values.Check(value, p.number)
	}
	return err
}

// get reads the key with the given number and returns the version of its value.
func (p *probe) get(number uint64) (version uint64, found bool, err error) {
	p.number = number
	p.keys.Put(&p.text, number)
	found, err = p.reader.Get(p.text[:], p.callback)
	return p.version, found, err
}

// getOriginal reads a key that was written at most once.
func (p *probe) getOriginal(number uint64, present bool) error {
	version, found, err := p.get(number)
	if err != nil {
		return err
	}
	if found != present {
		return fmt.Errorf("%w: key %d: found is %t, want %t", ErrWrong, number, found, present)
	}
	if found && version != 0 {
		return fmt.Errorf("%w: key %d has version %d, want 0", ErrWrong, number, version)
	}
	return nil
}

func (p *probe) close() error { return p.reader.Close() }
