package filebackup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// A claim keeps backups and the deletion of files apart. Each backup and each Prune first
// puts its claim, and then looks for the claims of the others. So of a backup and a Prune
// that begin at once, at least one sees the other. A backup waits until no Prune is under
// way. A Prune during a backup deletes no files.
//
// The holder renews its claim. A claim whose content does not change for claimLapse is of
// a process that has died, and others remove it. No clocks are compared for that. A holder
// that could not renew its claim for claimValid gives up.
type claim struct {
	store Store
	name  string
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu      sync.Mutex
	renewed time.Time // guarded by mu: before the last Put that succeeded
	lost    bool      // guarded by mu: for once, the next Put came too late
}

const (
	claimBackup = claimsDir + "backup-"
	claimPrune  = claimsDir + "prune-"

	// claimRenewal is the time between two renewals.
	claimRenewal = 20 * time.Second
	// claimValid is how long a holder relies on a renewal.
	claimValid = time.Minute
	// claimLapse is how long others see no renewal before they remove the claim.
	claimLapse = 2 * time.Minute
	// claimPoll is the time between two checks of a claim.
	claimPoll = time.Second
	// claimMax is the largest length of a claim in bytes.
	claimMax = 1 << 10
)

// ErrClaimLost says that a backup or a Prune could not renew its claim on the store for a
// minute. This may happen after the computer has slept. A Prune ends then. A backup tries
// again before it gives up. The caller may try again.
var ErrClaimLost = errors.New("filebackup: lost the claim on the store")

// newClaim puts a claim, and renews it until release.
func newClaim(ctx context.Context, store Store, kind string) (*claim, error) {
	c := &claim{store: store, name: fmt.Sprintf("%s%016x", kind, rand.Uint64())}
	if err := c.renew(ctx); err != nil {
		// The store may have it: a call that was cancelled may have arrived.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimRenewal)
		defer cancel()
		return nil, errors.Join(err, store.Delete(after, c.name))
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.ended.Go(func() {
		tick := time.NewTicker(claimRenewal)
		defer tick.Stop()
		for {
			select {
			case <-background.Done():
				return
			case <-tick.C:
				_ = c.renew(background) // valid tells the holder
			}
		}
	})
	return c, nil
}

// renew puts the claim with another content.
func (c *claim) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimRenewal)
	defer cancel()
	now := time.Now()
	content := fmt.Appendf(nil, "stoat claim\ntime %s\nrandom %016x\n", now.UTC().Format(time.RFC3339), rand.Uint64())
	err := c.store.Put(ctx, c.name, sectionOf(content))
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost = c.lost || !c.renewed.IsZero() && late(c.renewed)
		c.renewed = now
	}
	return err
}

// late reports whether a holder may no longer rely on a renewal. The time on the wall counts,
// too, because some systems stop the other clock while the computer sleeps.
func late(renewed time.Time) bool {
	now := time.Now()
	return now.Sub(renewed) > claimValid || now.Round(0).Sub(renewed.Round(0)) > claimValid
}

// valid returns an error if others may have removed the claim.
func (c *claim) valid() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost || late(c.renewed) {
		return ErrClaimLost
	}
	return nil
}

// release removes the claim. If that fails, the claim lapses.
func (c *claim) release(ctx context.Context) {
	c.stop()
	c.ended.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimRenewal)
	defer cancel()
	_ = c.store.Delete(ctx, c.name)
}

// awaitClaims waits until no claim of a kind is left, and removes those that lapse.
//
// Without patience, it returns errInUse for a claim that is in use.
func awaitClaims(ctx context.Context, store Store, kind string, patient bool) error {
	var names []string
	for o, err := range store.List(ctx, kind) {
		if err != nil {
			return err
		}
		names = append(names, o.Name)
	}
	// Claims of crashed processes lapse at the same time, not one after the other.
	return each(ctx, workersMax, names, func(ctx context.Context, name *string) error {
		return awaitClaim(ctx, store, *name, patient)
	})
}

// claimed reports whether a claim of a kind is in use. It waits until other claims lapse, and
// removes them.
func claimed(ctx context.Context, store Store, kind string) (bool, error) {
	err := awaitClaims(ctx, store, kind, false)
	if err == errInUse {
		return true, nil
	}
	return false, err
}

// errInUse says that a claim is in use.
var errInUse = errors.New("claim in use")

// awaitClaim waits until a claim is gone, and removes it if it lapses. Without patience, it
// returns errInUse for a claim that is in use: its content says so, or changes.
func awaitClaim(ctx context.Context, store Store, name string, patient bool) error {
	var seen []byte
	var since time.Time
	for {
		content, err := getSmall(ctx, store, name, claimMax)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !patient && (seen == nil && recent(content) || seen != nil && !bytes.Equal(seen, content)):
			return errInUse
		case seen == nil || !bytes.Equal(seen, content):
			seen, since = content, time.Now()
		case time.Since(since) > claimLapse:
			return store.Delete(ctx, name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(claimPoll):
		}
	}
}

// recent reports whether a claim says that it was renewed within the last claimLapse.
func recent(content []byte) bool {
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, "time "); ok {
			at, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
			return err == nil && time.Since(at).Abs() < claimLapse
		}
	}
	return false
}
