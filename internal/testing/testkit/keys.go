package testkit

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stoatdb/stoat"
)

// MasterKey returns a master key with an ID.
func MasterKey(id string) stoat.MasterKey {
	return stoat.MasterKey{ID: id, Key: bytes.Repeat([]byte(id+"-"), stoat.MasterKeySize)[:stoat.MasterKeySize]}
}

// Keys is a provider of one master key, for tests of encrypted databases.
var Keys = stoat.StaticKeys(MasterKey("one"))

// KeysIf returns Keys, or nil for a database without encryption.
func KeysIf(encrypted bool) stoat.KeyProvider {
	if encrypted {
		return Keys
	}
	return nil
}

// TurningKeys is a provider whose keys change. Background jobs ask it at any time.
type TurningKeys struct {
	keys atomic.Pointer[stoat.KeyProvider]
}

// Turn sets the keys.
func (t *TurningKeys) Turn(keys stoat.KeyProvider) { t.keys.Store(&keys) }

// Current implements stoat.KeyProvider.
func (t *TurningKeys) Current(ctx context.Context) (string, []byte, error) {
	return (*t.keys.Load()).Current(ctx)
}

// Key implements stoat.KeyProvider.
func (t *TurningKeys) Key(ctx context.Context, id string) ([]byte, error) {
	return (*t.keys.Load()).Key(ctx, id)
}

// NumberedKey returns a master key that belongs to a number.
func NumberedKey(n int) stoat.MasterKey { return MasterKey(fmt.Sprintf("%04d", n)) }
