package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
)

// refused reports whether err is one by which a damaged backup is refused.
func refused(err error) bool {
	return errors.Is(err, stoat.ErrCorrupt) || errors.Is(err, stoat.ErrBackup) || errors.Is(err, stoat.ErrVersion)
}

// damage returns a copy of a backup with one random damage. It cuts the backup, appends a
// byte or changes one. Or it loses a frame, doubles it, exchanges it, or takes it from
// another backup.
func damage(rng *rand.Rand, b, other []byte) (bad []byte, what string) {
	frames, others := framesOf(b), framesOf(other)
	switch bad = bytes.Clone(b); rng.IntN(24) {
	case 0:
		n := rng.IntN(len(b))
		return bad[:n], fmt.Sprintf("cut to %d of %d bytes", n, len(b))
	case 1:
		return append(bad, byte(rng.IntN(256))), "a byte more"
	case 2:
		i := 1 + rng.IntN(len(frames)-1)
		return join(frames, i, i+1), fmt.Sprintf("without frame %d", i)
	case 3:
		i := 1 + rng.IntN(len(frames)-1)
		return join(frames, i+1, i), fmt.Sprintf("frame %d twice", i)
	case 4:
		if i := 1 + rng.IntN(len(frames)-1); i+1 < len(frames) && !bytes.Equal(frames[i], frames[i+1]) {
			frames[i], frames[i+1] = frames[i+1], frames[i]
			return bytes.Join(frames, nil), fmt.Sprintf("frames %d and %d exchanged", i, i+1)
		}
	case 5:
		i, j := 1+rng.IntN(len(frames)-1), 1+rng.IntN(len(others)-1)
		if !bytes.Equal(frames[i], others[j]) {
			frames[i] = others[j]
			return bytes.Join(frames, nil), fmt.Sprintf("frame %d is frame %d of another backup", i, j)
		}
	}
	at, by := rng.IntN(len(b)), byte(1+rng.IntN(255))
	bad[at] ^= by
	return bad, fmt.Sprintf("byte %d changed by %#x", at, by)
}

// join returns frames[:to] and frames[from:].
func join(frames [][]byte, to, from int) []byte {
	return append(bytes.Join(frames[:to], nil), bytes.Join(frames[from:], nil)...)
}

// framesOf cuts a backup into its prefix and its frames.
func framesOf(b []byte) (frames [][]byte) {
	for n := 16; n <= len(b) && len(b) > 0; {
		frames, b = append(frames, b[:n:n]), b[n:]
		if len(b) >= 24 {
			n = 24 + int(binary.LittleEndian.Uint32(b[8:]))
		}
	}
	return frames
}

// RunDamages damages backups of a chain n times. Each time VerifyBackup must refuse the
// damaged one. So must Restore, which leaves no database; it is asked now and then, because
// it is slower.
func RunDamages(seed uint64, n int) error {
	l, err := newLife(seed)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for range 3 {
		for range 25 {
			if err := l.act(ctx); err != nil {
				return err
			}
		}
		if err := l.backUp(ctx); err != nil {
			return err
		}
	}
	defer func() { _ = l.db.Close() }() // the backups are made
	for i := range n {
		at := l.rng.IntN(len(l.chain))
		bad, what := damage(l.rng, l.chain[at], l.chain[l.rng.IntN(len(l.chain))])
		if _, err := stoat.VerifyBackup(ctx, bytes.NewReader(bad)); !refused(err) {
			return fmt.Errorf("backup %d, %s: verify says %v", at, what, err)
		}
		if i%64 != 0 {
			continue
		}
		if err := l.refuses(ctx, at, bad); err != nil {
			return fmt.Errorf("backup %d, %s: %w", at, what, err)
		}
	}
	return nil
}

// refuses restores the chain with a damaged backup.
func (l *life) refuses(ctx context.Context, at int, bad []byte) error {
	readers := l.readers(len(l.chain))
	readers[at] = io.Reader(bytes.NewReader(bad))
	dir := fmt.Sprintf("/damaged%d", l.rng.Uint64())
	if _, err := stoat.Restore(ctx, dir, stoat.RestoreOptions{Options: l.other()}, readers...); !refused(err) {
		return fmt.Errorf("restore says %v", err)
	}
	if _, err := l.opts.FS.Stat(dir); !errors.Is(err, vfs.ErrNotExist) {
		return fmt.Errorf("restore left a database: %v", err)
	}
	return nil
}
