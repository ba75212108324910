package testkit

import (
	"bytes"

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
