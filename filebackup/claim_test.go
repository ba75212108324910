package filebackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A fakeDatabase makes checkpoints of one table and a manifest.
type fakeDatabase struct {
	fs    vfs.FS
	begun func() // called by each checkpoint, if it is set
}

func (d *fakeDatabase) Checkpoint(_ context.Context, dir string) error {
	if d.begun != nil {
		d.begun()
	}
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	for _, name := range []string{"000001.table", "MANIFEST-000001"} {
		f, err := d.fs.Create(d.fs.Join(dir, name), vfs.CatTable)
		if err == nil {
			_, err = f.WriteAt([]byte("the content of "+name), 0)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A hooked store calls hook before each Put and Delete, which can make it fail.
type hooked struct {
	Store
	hook func(what, name string) error
}

func (h *hooked) Put(ctx context.Context, name string, content *io.SectionReader) error {
	if err := h.hook("put", name); err != nil {
		return err
	}
	return h.Store.Put(ctx, name, content)
}

func (h *hooked) Delete(ctx context.Context, name string) error {
	if err := h.hook("delete", name); err != nil {
		return err
	}
	return h.Store.Delete(ctx, name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claims returns how many claims of a kind are in the store.
func claims(t *testing.T, s Store, kind string) (n int) {
	t.Helper()
	for _, err := range s.List(t.Context(), kind) {
		must(t, err)
		n++
	}
	return n
}

func newFake() (*fakeDatabase, Options, Store) {
	fs := memfs.New()
	return &fakeDatabase{fs: fs}, Options{FS: fs, Temp: "/temp", Workers: 1}, Dir(memfs.New(), "/store")
}

// newListed returns a store with a list.
func newListed(t *testing.T) Store {
	t.Helper()
	l, store := sample(), Dir(memfs.New(), "/store")
	must(t, store.Put(t.Context(), listsDir+l.id, sectionOf(l.encode())))
	return store
}

// newOrphan returns a store with a list, and with a file that no list names.
func newOrphan(t *testing.T) Store {
	t.Helper()
	store := newListed(t)
	must(t, store.Put(t.Context(), filesDir+strings.Repeat("0", 64), sectionOf([]byte("x"))))
	return store
}

// hold takes a claim of a kind.
func hold(t *testing.T, store Store, kind string) *claim {
	t.Helper()
	held, err := newClaim(t.Context(), store, kind)
	must(t, err)
	return held
}

// wantPruned demands what a Prune reports that keeps a backup.
func wantPruned(t *testing.T, store Store, busy bool, files int) {
	t.Helper()
	r, err := Prune(t.Context(), store, 1)
	must(t, err)
	if r.Busy != busy || r.Files != files {
		t.Errorf("Prune reports %+v, want busy %t and %d files", r, busy, files)
	}
}

func TestClaim_OfADeadPruneDelaysABackupByTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		must(t, store.Put(t.Context(), claimPrune+"dead", sectionOf([]byte("time 2000-01-01T00:00:00Z\n"))))
		begun := time.Now()
		_, err := Backup(t.Context(), db, store, o)
		must(t, err)
		if took := time.Since(begun); took < claimLapse || took > claimLapse+time.Minute {
			t.Errorf("the backup took %v", took)
		}
		if n := claims(t, store, claimsDir); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}

func TestClaim_ABackupWaitsForAPruneThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		held := hold(t, store, claimPrune)
		var done atomic.Bool
		go func() {
			_, err := Backup(t.Context(), db, store, o)
			if err != nil {
				t.Error(err)
			}
			done.Store(true)
		}()
		time.Sleep(time.Hour)
		if done.Load() {
			t.Fatal("the backup did not wait")
		}
		held.release(t.Context())
		time.Sleep(2 * claimPoll)
		if !done.Load() {
			t.Error("the backup still waits")
		}
	})
}

func TestClaim_AWaitingBackupEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		held := hold(t, store, claimPrune)
		defer held.release(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := Backup(ctx, db, store, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Backup returns %v", err)
		}
		if n := claims(t, store, claimBackup); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}

func TestClaim_APruneBesideABackupDeletesNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newOrphan(t)
		held := hold(t, store, claimBackup)
		for range 3 { // a claim stays in use for as long as it is held
			wantPruned(t, store, true, 0)
			time.Sleep(10 * claimLapse)
		}
		held.release(t.Context())
		wantPruned(t, store, false, 1)
	})
}

func TestClaim_OfADeadBackupEndsWhenItLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newOrphan(t)
		held := hold(t, store, claimBackup)
		held.stop() // the process dies
		held.ended.Wait()
		wantPruned(t, store, true, 0)
		time.Sleep(claimLapse)
		wantPruned(t, store, false, 1)
		if n := claims(t, store, claimsDir); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}

// A clock of another computer may be wrong. Whether a claim changes decides.
func TestClaim_AWrongClockTakesNoClaimFromItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newOrphan(t)
		ctx, stop := context.WithCancel(t.Context())
		var holder sync.WaitGroup
		holder.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				must(t, store.Put(context.Background(), claimBackup+"slow", sectionOf([]byte("time 2000-01-01T00:00:00Z\n"+strings.Repeat("x", i)))))
				time.Sleep(claimRenewal)
			}
		})
		synctest.Wait() // for the first Put
		wantPruned(t, store, true, 0)
		stop()
		holder.Wait()
	})
}

func TestClaim_ABackupThatLosesItsClaimBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		h := &hooked{Store: store}
		var files atomic.Int32
		var unreachable atomic.Bool
		h.hook = func(what, name string) error {
			if strings.HasPrefix(name, claimBackup) && what == "put" && unreachable.Load() {
				return errors.New("the store cannot be reached")
			}
			if !strings.HasPrefix(name, filesDir) || files.Add(1) != 2 {
				return nil
			}
			unreachable.Store(true)
			time.Sleep(10 * claimLapse)
			for o, err := range store.List(t.Context(), filesDir) { // a Prune deletes the first file
				must(t, err)
				must(t, store.Delete(t.Context(), o.Name))
			}
			unreachable.Store(false)
			time.Sleep(2 * claimRenewal) // a late renewal succeeds
			return nil
		}
		r, err := Backup(t.Context(), db, h, o)
		must(t, err)
		if _, err := Verify(t.Context(), store, r.ID); err != nil {
			t.Error(err)
		}
		if n := files.Load(); n != 3 {
			t.Errorf("the backup put %d files, want 3: the deleted one twice", n)
		}
	})
}

// A slowList is a store that calls after when it has stored the first list.
type slowList struct {
	*hooked
	first bool
	after func(ctx context.Context) error
}

func (s *slowList) Put(ctx context.Context, name string, content *io.SectionReader) error {
	err := s.hooked.Put(ctx, name, content)
	if err == nil && strings.HasPrefix(name, listsDir) && !s.first {
		s.first = true
		err = s.after(ctx)
	}
	return err
}

// newSlowList returns a slowList, and whether renewals of claims fail.
func newSlowList(store Store) (s *slowList, unreachable *atomic.Bool) {
	unreachable = &atomic.Bool{}
	return &slowList{hooked: &hooked{store, func(_, name string) error {
		if strings.HasPrefix(name, claimBackup) && unreachable.Load() {
			return errors.New("the store cannot be reached")
		}
		return nil
	}}}, unreachable
}

func TestClaim_ABackupThatLosesItsClaimWhileItPutsTheListBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		s, unreachable := newSlowList(store)
		var firstList string
		s.after = func(context.Context) error { // as after the computer slept
			unreachable.Store(true)
			time.Sleep(10 * claimLapse)
			for o, err := range store.List(t.Context(), listsDir) {
				must(t, err)
				firstList = o.Name
			}
			for o, err := range store.List(t.Context(), filesDir) { // a Prune that did not see the list
				must(t, err)
				must(t, store.Delete(t.Context(), o.Name))
			}
			unreachable.Store(false)
			return nil
		}
		r, err := Backup(t.Context(), db, s, o)
		must(t, err)
		if listsDir+r.ID == firstList {
			t.Error("the backup did not begin again")
		}
		infos, err := List(t.Context(), store)
		must(t, err)
		if len(infos) != 1 || infos[0].ID != r.ID {
			t.Errorf("the store has the backups %v, want %s", infos, r.ID)
		}
		if _, err := Verify(t.Context(), store, r.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestClaim_AHangingPutOfAListEndsBeforeTheClaimLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		s, _ := newSlowList(store)
		s.after = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(claimLapse):
			}
			return ctx.Err()
		}
		begun := time.Now()
		if _, err := Backup(t.Context(), db, s, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Backup returns %v", err)
		}
		if took := time.Since(begun); took > claimLapse-claimValid {
			t.Errorf("the backup took %v", took)
		}
		if ids, err := idsOf(t.Context(), store); err != nil || len(ids) != 0 {
			t.Errorf("the backups %v are left: %v", ids, err)
		}
	})
}

func TestClaim_APruneThatLosesItsClaimDeletesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newListed(t)
		for _, name := range []string{"a", "b", "c"} {
			must(t, store.Put(t.Context(), filesDir+strings.Repeat(name, 64), sectionOf([]byte("x"))))
		}
		h := &hooked{Store: store}
		deletions := 0
		h.hook = func(what, name string) error {
			switch {
			case what == "put" && claims(t, store, claimPrune) > 0:
				return errors.New("the store cannot be reached")
			case what == "delete" && strings.HasPrefix(name, filesDir):
				deletions++
				time.Sleep(claimValid * 9 / 10)
			}
			return nil
		}
		if r, err := Prune(t.Context(), h, 1); !errors.Is(err, ErrClaimLost) || r.Files != 2 {
			t.Errorf("Prune reports %+v: %v", r, err)
		}
		if deletions != 2 {
			t.Errorf("Prune asked for %d deletions", deletions)
		}
	})
}

func TestBackup_TwoAtOnceOfOneDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, o, store := newFake()
		var second error
		db.begun = func() {
			db.begun = nil
			_, second = Backup(t.Context(), db, store, o)
		}
		_, err := Backup(t.Context(), db, store, o)
		must(t, err)
		if !errors.Is(second, vfs.ErrLocked) {
			t.Errorf("the second backup returns %v", second)
		}
	})
}

func TestClaim_ManyOfCrashedBackupsLapseTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, store := backUps(t, 1)
		for i := range 6 {
			claim := fmt.Sprintf("%s%016x", claimBackup, i)
			must(t, store.Put(t.Context(), claim, sectionOf([]byte("stoat claim\ntime 1990-01-01T00:00:00Z\nrandom 1\n"))))
		}
		began := time.Now()
		r, err := Prune(t.Context(), store, 1)
		must(t, err)
		if took := time.Since(began); took > 2*claimLapse || r.Busy {
			t.Errorf("Prune took %v, of which one claim takes %v; busy: %v", took, claimLapse, r.Busy)
		}
	})
}

func TestClaim_OfABackupThatIsCancelledWhileItClaimsIsRemoved(t *testing.T) {
	t.Parallel()
	db, o, store := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	h := &hooked{Store: store}
	h.hook = func(what, name string) error {
		if what != "put" || !strings.HasPrefix(name, claimBackup) || ctx.Err() != nil {
			return nil
		}
		must(t, store.Put(t.Context(), name, sectionOf([]byte("it arrives"))))
		cancel()
		return ctx.Err()
	}
	if _, err := Backup(ctx, db, h, o); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup returns %v", err)
	}
	for o, err := range store.List(t.Context(), claimBackup) {
		must(t, err)
		t.Errorf("the claim %s is left", o.Name)
	}
}
