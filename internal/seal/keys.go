package seal

import (
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/vfs"
)

// A Provider supplies master keys of KeySize bytes.
type Provider interface {
	// Current returns the master key for new files, and its ID.
	Current(ctx context.Context) (id string, key []byte, err error)
	// Key returns the master key with an ID that Current returned before.
	Key(ctx context.Context, id string) ([]byte, error)
}

// Options configure Keys.
type Options struct {
	FS       vfs.FS
	Dir      string
	Provider Provider
	Clock    base.Clock
	// MaxAge is the age at which a new data key replaces the newest one.
	MaxAge time.Duration
	// Random returns random bytes for keys and salts.
	Random io.Reader
	// ReadOnly keys never change the file KEYS.
	ReadOnly bool
	// Refuse, if it is not nil, returns why Load must not change KEYS. Load asks it first.
	Refuse func(*Keys) error
	// Report, if it is not nil, takes a warning once a new data key is due and KEYS is full.
	Report event.Sink
	// Fix corrects one wrong bit of KEYS, and of the footer of a file. A tag proves the
	// result.
	Fix bool
}

// Keys are the data keys of an open database. The methods are safe for concurrent use.
type Keys struct {
	o Options
	// Memory counts the decrypted pages of the files that FS opens.
	Memory Memory

	rotating chan struct{} // has an element during a RotateMaster
	changing sync.Mutex    // held to replace KEYS, and while a provider is asked for that
	// certain says that KEYS is durable with the contents and the master key of file. A
	// failed rename or sync leaves open which KEYS a power cut brings back. Guarded by
	// changing.
	certain bool
	// unsure is a data key that replacing KEYS has failed with; its number is 0 if there is
	// none. A follower may nevertheless have read it. So the next KEYS has it, too. Guarded by
	// changing.
	unsure dataKey
	// unsettled is the KEYS that Load has read, while a power cut may bring back an older
	// one: the disk was full when settle wrote it again. It is nil otherwise.
	unsettled atomic.Pointer[[]byte]
	// full reports once that KEYS is full.
	full sync.Once
	// askAgain is when newest asks the provider again. Guarded by changing.
	askAgain time.Time

	// life ends with End. It bounds the waits for the provider of callers without a context.
	life context.Context
	end  context.CancelFunc

	mu   sync.Mutex
	file keyFile // guarded by mu: the contents of KEYS, without a salt
}

// Exist reports whether the directory has a file of keys: then it is encrypted.
func Exist(fs vfs.FS, dir string) (bool, error) {
	_, err := fs.Stat(fs.Join(dir, KeysName))
	if errors.Is(err, vfs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Discard durably removes the keys of a database that was never made.
func Discard(fs vfs.FS, dir string) error {
	for _, name := range []string{KeysName, TempName} {
		if err := fs.Remove(fs.Join(dir, name)); err != nil && !errors.Is(err, vfs.ErrNotExist) {
			return err
		}
	}
	return fs.SyncDir(dir)
}

func newKeys(o Options) *Keys {
	k := &Keys{o: o, rotating: make(chan struct{}, 1)}
	k.life, k.end = context.WithCancel(context.Background())
	k.o.Provider = patientOf(k.life, o.Provider)
	return k
}

// End ends the calls of the provider, and the waits of readers for them. The database is being
// closed.
func (k *Keys) End() { k.end() }

// Create makes the keys of a new database in an existing directory.
func Create(ctx context.Context, o Options) (*Keys, error) {
	k := newKeys(o)
	id, master, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	first, err := k.newKey(1)
	if err != nil {
		return nil, err
	}
	return k, k.replace(keyFile{master: id, keys: []dataKey{first}}, master)
}

// Load reads the keys of a database, and makes them durable unless they are read-only. If
// the provider has another current master key, Load replaces the file. Its errors are
// base.ErrKey if the provider lacks the master key or has a wrong one, base.ErrCorrupt, and
// base.ErrVersion.
func Load(ctx context.Context, o Options) (*Keys, error) {
	k := newKeys(o)
	b, err := k.read()
	if err != nil {
		return nil, err
	}
	f, sealed, data, err := decodeKeyFile(b)
	if err != nil && o.Fix && base.FixBit(b, func() bool {
		_, _, _, e := decodeKeyFile(b)
		return e == nil
	}) {
		f, sealed, data, err = decodeKeyFile(b)
	}
	if err != nil {
		return nil, base.InFile(err, KeysName)
	}
	master, err := k.o.Provider.Key(ctx, f.master)
	if err = checkMaster(f.master, master, err); err != nil {
		return nil, err
	}
	aead, err := f.wrapping(master)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, make([]byte, 12), sealed, data)
	if err != nil {
		return nil, fmt.Errorf("%w: the master key %q does not open %s", base.ErrKey, f.master, KeysName)
	}
	if err := f.decodeKeys(plain); err != nil {
		return nil, base.InFile(err, KeysName)
	}
	clear(plain)
	f.print = sha256.Sum256(master)
	k.file = f
	if o.ReadOnly {
		return k, nil
	}
	if err := k.settle(b); err != nil {
		return nil, err
	}
	id, master, err := k.current(ctx)
	if err == nil && id != f.master {
		err = k.refused()
	}
	if err != nil {
		return nil, err
	}
	return k, k.rotate(id, master, true)
}

// refused returns why Load must not change KEYS.
func (k *Keys) refused() error {
	if k.o.Refuse == nil {
		return nil
	}
	return k.o.Refuse(k)
}

// Reload reads KEYS again: another process may have added data keys.
func (k *Keys) Reload(ctx context.Context) error {
	_, err := k.reload(ctx)
	return err
}

// reload is Reload, and returns what it has read.
func (k *Keys) reload(ctx context.Context) (keyFile, error) {
	fresh, err := Load(ctx, k.o)
	if err != nil {
		return keyFile{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = fresh.file
	return fresh.file, nil
}

// read returns the contents of KEYS.
func (k *Keys) read() ([]byte, error) {
	f, err := k.o.FS.Open(k.path(KeysName), vfs.CatKeys)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, keysSizeMax+1))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

func (k *Keys) path(name string) string { return k.o.FS.Join(k.o.Dir, name) }

// current returns the current master key.
func (k *Keys) current(ctx context.Context) (string, []byte, error) {
	id, key, err := k.o.Provider.Current(ctx)
	if err == nil && (len(id) < 1 || len(id) > idMax) {
		err = fmt.Errorf("the ID has %d bytes, want 1 to %d", len(id), idMax)
	}
	return id, key, checkMaster(id, key, err)
}

// checkMaster checks what a provider returned.
func checkMaster(id string, key []byte, err error) error {
	switch {
	case errors.Is(err, base.ErrKey): // of a provider of this package
		return err
	case err != nil && id == "":
		return fmt.Errorf("%w: the current master key: %w", base.ErrKey, err)
	case err != nil:
		return fmt.Errorf("%w: the master key %q: %w", base.ErrKey, id, err)
	}
	if len(key) != KeySize {
		return fmt.Errorf("%w: the master key %q has %d bytes, want %d", base.ErrKey, id, len(key), KeySize)
	}
	return nil
}

// now returns the contents of KEYS.
func (k *Keys) now() keyFile {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file
}

// NewFile returns the cipher for a new use of a file.
func (k *Keys) NewFile(label string) (base.KeyRef, cipher.AEAD, error) {
	d := k.newest()
	if mutant.On(mutant.KeepLogKey) && strings.HasPrefix(label, "stoatLOG") {
		d = k.now().keys[0]
	}
	ref := base.KeyRef{ID: d.id}
	if _, err := io.ReadFull(k.o.Random, ref.Salt[:]); err != nil {
		return ref, nil, err
	}
	aead, err := derive(d.key[:], ref.Salt[:], label)
	return ref, aead, err
}

// OpenFile returns the cipher that NewFile returned with ref.
func (k *Keys) OpenFile(ref base.KeyRef, label string) (cipher.AEAD, error) {
	f := k.now()
	d, ok := f.find(ref.ID)
	if !ok && k.o.ReadOnly && !k.o.Fix {
		// Another process, which writes the database, may have added the key.
		ctx, cancel := context.WithTimeout(k.life, readerPatience)
		defer cancel()
		var err error
		if f, err = k.reload(ctx); err != nil {
			return nil, err
		}
		d, ok = f.find(ref.ID)
	}
	if !ok {
		return nil, base.Corrupt(-1, "data key", ref.ID, "one of "+KeysName)
	}
	return derive(d.key[:], ref.Salt[:], label)
}

// find returns the data key with an ID.
func (f *keyFile) find(id uint32) (d dataKey, ok bool) {
	for _, d := range f.keys {
		if d.id == id {
			return d, true
		}
	}
	return d, false
}
