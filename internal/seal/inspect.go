package seal

import "time"

// KeysInfo describes a file KEYS, without secrets.
type KeysInfo struct {
	MasterID string
	// Count is the number of data keys.
	Count int
	// Made says when each data key was made, by its number. It is nil without the master
	// key.
	Made map[uint32]time.Time
}

// Inspect describes the contents of a file KEYS. It needs no key.
func Inspect(b []byte) (KeysInfo, error) {
	f, _, _, err := decodeKeyFile(b)
	return KeysInfo{MasterID: f.master, Count: len(f.keys)}, err
}

// Info describes the keys.
func (k *Keys) Info() KeysInfo {
	f := k.now()
	info := KeysInfo{MasterID: f.master, Count: len(f.keys), Made: map[uint32]time.Time{}}
	for i := range f.keys {
		info.Made[f.keys[i].id] = time.UnixMilli(f.keys[i].made)
	}
	return info
}
