package ingest

import (
	"context"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// partBytes is the number of bytes of entries for which an ingest gets room on the
	// disk promised at once.
	partBytes = 4 << 20
	// entryBytes is what an entry takes at most beside its key and value, in bytes.
	entryBytes = 64
)

// A meter gets room on the disk for what an ingest is about to write.
type meter struct {
	engine *Engine
	ctx    context.Context // of the operation
	// room is what is left of the promised bytes. promised is what may not be on the
	// disk yet.
	room, promised int64
}

// admit makes sure that there is room for that many bytes, and that the caller still wants
// the ingest.
func (m *meter) admit(bytes int64) error {
	if err := work.Interrupted(m.ctx); err != nil {
		return err
	}
	if m.room >= bytes {
		m.room -= bytes
		return nil
	}
	part := max(bytes, partBytes)
	if beside := m.promised - partBytes; beside > 0 { // of a large value, which is on the disk
		m.engine.Space.Taken(beside)
		m.promised = partBytes
	}
	if err := m.engine.Space.Admit(m.ctx, part); err != nil {
		return cause(m.ctx, err)
	}
	// What is before the last part has left the buffers of the writers.
	m.engine.Space.Taken(m.promised)
	m.promised, m.room = part, part-bytes
	return cause(m.ctx, m.engine.Throttle.AdmitApart(m.ctx, part))
}

// close ends the promises.
func (m *meter) close() { m.engine.Space.Taken(m.promised) }

// cause returns why the context of the operation is done, or err if it is not.
func cause(ctx context.Context, err error) error {
	if e := work.Interrupted(ctx); e != nil && err != nil && !errors.Is(err, base.ErrFailed) {
		return e
	}
	return err // ErrFailed alone says that the entries may be there
}
