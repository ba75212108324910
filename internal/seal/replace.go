package seal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/vfs"
)

// RotateMaster durably seals the data keys with the current master key, unless it did so
// before. It refuses a current key that has the ID of another key, which protects the
// data keys: the caller would discard that one.
//
// The order of two rotations is that in which they ask the provider. Nothing else waits for
// its answer.
func (k *Keys) RotateMaster(ctx context.Context) error {
	select {
	case k.rotating <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.rotating }()
	id, master, err := k.current(ctx)
	if err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	return k.rotate(id, master, k.certain)
}

// rotate is RotateMaster to a master key, but leaves a KEYS alone that has this key if trust
// is set. The caller holds changing, or is the only user.
func (k *Keys) rotate(id string, master []byte, trust bool) error {
	f := k.now()
	if id == f.master && !f.sealedWith(master) {
		return fmt.Errorf("%w: the current master key %q differs from the key with this ID that protects the database", base.ErrKey, id)
	}
	if id == f.master && trust || mutant.On(mutant.KeepMasterKey) {
		return nil
	}
	if mutant.On(mutant.RotateForgetsKeys) {
		f.keys = f.keys[len(f.keys)-1:]
	}
	return k.replace(keyFile{master: id, keys: k.withUnsure(f.keys)}, master)
}

// sealedWith reports whether the master key protects the data keys.
func (f *keyFile) sealedWith(master []byte) bool { return sha256.Sum256(master) == f.print }

// replace durably replaces KEYS. The caller holds changing, or is the only user.
func (k *Keys) replace(f keyFile, master []byte) error {
	f.print = sha256.Sum256(master)
	b, err := k.encode(f, master)
	if err != nil {
		return err
	}
	if err := k.write(b); err != nil {
		return err
	}
	k.unsure = dataKey{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = f
	return nil
}

// settle makes the KEYS that Load has read durable. The process that wrote it may have died
// before it synced the name. A power cut would then take the data keys from new files.
//
// A sync of the name is enough, unless an earlier one failed, after which later ones may
// skip the name. Then there is a file TempName, and settle writes KEYS again. On a full
// disk, KEYS stays unsettled.
func (k *Keys) settle(b []byte) error {
	_, err := k.o.FS.Stat(k.path(TempName))
	if errors.Is(err, vfs.ErrNotExist) {
		return k.syncName()
	}
	if err := k.refused(); err != nil {
		return err
	}
	if err = k.write(b); errors.Is(err, vfs.ErrNoSpace) {
		k.unsettled.Store(&b)
		return k.o.FS.SyncDir(k.o.Dir)
	}
	return err
}

// settled reports whether KEYS has its data keys after a power cut. While it is unsettled,
// settled tries to write it again.
func (k *Keys) settled() bool {
	if k.unsettled.Load() == nil {
		return true
	}
	if !k.changing.TryLock() {
		return false
	}
	defer k.changing.Unlock()
	b := k.unsettled.Load()
	return b == nil || k.write(*b) == nil
}

// write durably replaces KEYS. The caller holds changing, or is the only user.
func (k *Keys) write(b []byte) error {
	fs := k.o.FS
	// After a power cut it may be another name of KEYS, so it must not be overwritten.
	if err := fs.Remove(k.path(TempName)); err != nil && !errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	if err := writeFile(fs, k.path(TempName), b); err != nil {
		return err
	}
	k.certain = false
	if err := fs.Rename(k.path(TempName), k.path(KeysName)); err != nil {
		return err
	}
	// A file without contents tells the next process if the sync fails.
	mark, err := fs.Create(k.path(TempName), vfs.CatKeys)
	if err != nil {
		return err
	}
	if err := mark.Close(); err != nil {
		return err
	}
	if err := k.syncName(); err != nil {
		return err
	}
	_ = fs.Remove(k.path(TempName)) // if it stays, the next process writes KEYS again
	return nil
}

// syncName makes the name of KEYS durable.
func (k *Keys) syncName() error {
	if err := k.o.FS.SyncDir(k.o.Dir); err != nil {
		return err
	}
	k.certain = true
	k.unsettled.Store(nil)
	return nil
}

// encode returns the contents of KEYS with a new salt.
func (k *Keys) encode(f keyFile, master []byte) ([]byte, error) {
	if _, err := io.ReadFull(k.o.Random, f.salt[:]); err != nil {
		return nil, err
	}
	return f.append(nil, master)
}

// writeFile durably writes a new file, but for its name.
func writeFile(fs vfs.FS, name string, b []byte) (err error) {
	f, err := fs.Create(name, vfs.CatKeys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.SyncData()
}

// CopyTo durably writes a copy of KEYS to a directory without one, but for its name. The
// copy opens with the same master key. A KEYS that is damaged meanwhile is an error: without
// it, the copy would be lost.
func (k *Keys) CopyTo(dir string) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	b, err := k.read()
	if err != nil {
		return err
	}
	there, _, _, err := decodeKeyFile(b)
	if err != nil {
		return base.InFile(err, KeysName)
	}
	if f := k.now(); there.master != f.master && !k.o.ReadOnly {
		// A rotation has failed after its rename. Its master key may have been discarded.
		master, err := k.answer(f.master)
		if err = checkMaster(f.master, master, err); err != nil {
			return err
		}
		if !f.sealedWith(master) {
			return fmt.Errorf("%w: the master key %q differs from the key with this ID that protects the database", base.ErrKey, f.master)
		}
		if b, err = k.encode(f, master); err != nil {
			return err
		}
	}
	return writeFile(k.o.FS, k.o.FS.Join(dir, KeysName), b)
}
