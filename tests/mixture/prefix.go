package mixture

import (
	"context"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// dropPrefix drops the keys with a prefix of a keyspace, all of its keys, or those of all
// keyspaces.
func (r *run) dropPrefix() error {
	some, prefix := r.some()[:1], ""
	ks := some[0].ks
	n := r.rng.IntN(6)
	if n > 1 {
		prefix = r.key()
		prefix = prefix[:1+r.rng.IntN(len(prefix))]
	}
	ctx, before := context.Background(), r.db.Stats().Version
	r.note("  prefix %q of %v, all keyspaces %v, as %d", prefix, some[0], n == 0, r.last+1)
	var err error
	switch {
	case n == 0:
		some = r.current()
		err = r.db.DropAll(ctx)
	case ks == nil:
		err = r.db.DropPrefix(ctx, []byte(prefix))
	case n == 1:
		err = ks.DropAll(ctx)
	default:
		err = ks.DropPrefix(ctx, []byte(prefix))
	}
	apply := func() error {
		var writes []write
		for _, s := range some {
			writes = append(writes, write{space: s, op: delRange, key: prefix, end: model.PrefixEnd(prefix)})
		}
		return r.commit(writes)
	}
	// A drop commits first and frees space then. The second step may fail alone.
	if err != nil && r.db.Stats().Version == before+1 {
		if err := apply(); err != nil {
			return err
		}
		return r.excuse(err, nil)
	}
	return r.committed(err, 0, r.opts.Durability == stoat.Synced, apply)
}
