package seal

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// A MasterKey is a master key of KeySize bytes with its ID.
type MasterKey struct {
	ID  string
	Key []byte
}

// A patient provider asks another one for one key at a time, and for one current key at a time.
// A caller waits for the answer until its context is done, also if the other provider ignores
// that. The call goes on. A late answer of Key serves the next caller.
type patient struct {
	Provider
	life    context.Context // ends the calls of Key
	current chan struct{}   // has an element during a call of Current
	mu      sync.Mutex
	call    *call // guarded by mu: the one of Key whose answer no caller has had, or nil
}

// A call asks for a key. What follows done is set before done is closed.
type call struct {
	id   string
	done chan struct{}
	key  []byte
	err  error
}

// callMax is how long a call may take, and how long its answer waits for a caller.
const callMax = 5 * time.Minute

// patientOf returns the patient provider that asks p, which may be one. Its calls end with
// life.
func patientOf(life context.Context, p Provider) Provider {
	if p, ok := p.(*patient); ok {
		return p
	}
	return &patient{Provider: p, life: life, current: make(chan struct{}, 1)}
}

// Current implements Provider. The current key may change, so it asks anew each time. A
// provider that ends its goroutine leaves neither a key nor an error; checkMaster refuses that.
func (p *patient) Current(ctx context.Context) (string, []byte, error) {
	if ctx.Done() == nil {
		return p.Provider.Current(ctx)
	}
	select {
	case p.current <- struct{}{}:
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	c := &call{done: make(chan struct{})}
	go func() {
		defer func() { <-p.current }()
		defer close(c.done)
		c.id, c.key, c.err = p.Provider.Current(ctx)
	}()
	select {
	case <-c.done:
		return c.id, c.key, c.err
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

// Key implements Provider.
func (p *patient) Key(ctx context.Context, id string) ([]byte, error) {
	if ctx.Done() == nil {
		return p.Provider.Key(ctx, id)
	}
	for {
		c, begun := p.ask(id)
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		p.forget(c.done)
		if c.id == id && (c.err == nil || begun) {
			return c.key, c.err
		}
	}
}

// ask returns the call under way, and begins one if there is none.
func (p *patient) ask(id string) (c *call, begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.call != nil {
		return p.call, false
	}
	done := make(chan struct{})
	c = &call{id: id, done: done}
	p.call = c
	ctx, cancel := context.WithTimeout(p.life, callMax)
	go func() {
		defer cancel()
		defer time.AfterFunc(callMax, func() { p.forget(done) }) // c would keep the key in memory
		defer close(done)
		c.key, c.err = p.Provider.Key(ctx, id)
	}()
	return c, true
}

// forget makes the next caller begin another call than that with done.
func (p *patient) forget(done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.call != nil && p.call.done == done {
		p.call = nil
	}
}

// StaticKeys returns a provider of fixed keys. The first one is the current key. The
// provider has its own copy of them.
func StaticKeys(keys ...MasterKey) Provider {
	own := make(staticKeys, len(keys))
	for i, k := range keys {
		own[i] = MasterKey{k.ID, bytes.Clone(k.Key)}
	}
	return own
}

// KeyFile returns a provider that reads a file of the operating system at each call.
// See stoat.KeyFile.
func KeyFile(name string) Provider { return masterKeyFile(name) }

type staticKeys []MasterKey

func (k staticKeys) Current(context.Context) (string, []byte, error) { return k[0].ID, k[0].Key, nil }

func (k staticKeys) Key(_ context.Context, id string) ([]byte, error) {
	for _, m := range k {
		if m.ID == id {
			return m.Key, nil
		}
	}
	return nil, fmt.Errorf("%w: the database needs the master key %q, which Options.Keys lacks", base.ErrKey, id)
}

type masterKeyFile string

func (f masterKeyFile) Current(ctx context.Context) (string, []byte, error) {
	keys, err := f.read()
	if err != nil {
		return "", nil, err
	}
	return keys.Current(ctx)
}

func (f masterKeyFile) Key(ctx context.Context, id string) ([]byte, error) {
	keys, err := f.read()
	if err != nil {
		return nil, err
	}
	return keys.Key(ctx, id)
}

// masterKeyFileMax is the size of the largest file of master keys in bytes.
const masterKeyFileMax = 1 << 20

// read reads the keys. Its errors do not show the contents of the file.
func (f masterKeyFile) read() (staticKeys, error) {
	// vfs.OS opens no symbolic link, because it protects databases. A mounted secret of
	// Kubernetes is a link, which changes with the secret.
	name, err := filepath.EvalSymlinks(string(f))
	if err != nil {
		name = string(f) // Open tells why it is not there
	}
	file, err := vfs.OS().Open(name, vfs.CatNone)
	if err != nil {
		// A missing key file must not look like a missing database.
		return nil, fmt.Errorf("%w: %v", base.ErrKey, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	b := make([]byte, masterKeyFileMax)
	n, err := file.ReadAt(b, 0)
	if err != io.EOF {
		return nil, fmt.Errorf("%w: read the key file %s: more than %d bytes, or %v", base.ErrKey, string(f), masterKeyFileMax, err)
	}
	var keys staticKeys
	for i, line := range bytes.Split(b[:n], []byte{'\n'}) {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		id, digits, _ := strings.Cut(text, " ")
		key, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil || len(key) != KeySize {
			return nil, fmt.Errorf("%w: line %d of the key file %s is not an ID and %d hexadecimal digits", base.ErrKey, i+1, string(f), 2*KeySize)
		}
		keys = append(keys, MasterKey{id, key})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: the key file %s has no key", base.ErrKey, string(f))
	}
	return keys, nil
}
