package seal

import "sync/atomic"

// Memory counts the decrypted pages of all files of a database.
type Memory struct {
	used, limit atomic.Int64
}

// Used returns the size of all decrypted pages in bytes.
func (m *Memory) Used() int64 { return m.used.Load() }

// SetLimit sets from how many bytes on the memory is crowded. 0 means no limit.
func (m *Memory) SetLimit(bytes int64) { m.limit.Store(bytes) }

// Crowded reports whether readers should keep no more decrypted pages.
func (m *Memory) Crowded() bool {
	limit := m.limit.Load()
	return limit > 0 && m.used.Load() >= limit
}
