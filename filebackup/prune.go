package filebackup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
)

// A PruneReport says what Prune has deleted.
type PruneReport struct {
	// Backups has the IDs of the deleted backups.
	Backups []string
	// Files counts the deleted files, and Bytes is the sum of their sizes.
	Files int
	Bytes int64
	// Busy says that a backup was under way. So Prune has deleted no files. The next Prune
	// does, if no backup is under way then and the store has a list.
	Busy bool
}

// Prune deletes all but the newest keep backups, at least 1, and then all files that no
// backup has. Among them are files of backups that did not end. Prune counts all backups of the
// store, of whatever database.
//
// It may run during backups, which wait for it. For two minutes after a crash of a backup,
// Prune reports Busy. After that, the first Prune waits for two minutes itself. While the
// list of a backup that it keeps cannot be read, Prune deletes nothing. The error is
// stoat.ErrCorrupt if the list is damaged: delete such a backup. It is stoat.ErrVersion if a
// later version made it.
//
// In a store without a list, Prune deletes no files, and the error is ErrNoBackup. The lists may
// be lost, or come last in a copy of the store: bring them back. After a new backup, Prune deletes
// the files of backups whose lists are missing.
func Prune(ctx context.Context, store Store, keep int) (PruneReport, error) {
	if keep < 1 {
		return PruneReport{}, base.Invalid("Prune keeps %d backups, want at least 1", keep)
	}
	ctx = work.Given(ctx)
	p := pruning{store: store}
	err := p.deleteLists(ctx, keep)
	if err == nil {
		err = p.deleteFiles(ctx)
	}
	if err != nil {
		err = fmt.Errorf("prune: %w", err)
	}
	return p.report, err
}

// Delete deletes a backup. Prune then deletes the files that no other backup has, unless there is
// no other backup.
func Delete(ctx context.Context, store Store, id string) error {
	if !isID(id) {
		return fmt.Errorf("%w: %q is not the ID of one", ErrNoBackup, id)
	}
	return store.Delete(work.Given(ctx), listsDir+id)
}

// A pruning is one Prune.
type pruning struct {
	store  Store
	report PruneReport
}

// deleteLists deletes the oldest backups. First it reads the lists of those that it keeps,
// because they may be all that is left. Backups under way may take the files of deleted ones
// for present: that is right, because only deleteFiles deletes files.
func (p *pruning) deleteLists(ctx context.Context, keep int) error {
	ids, err := idsOf(ctx, p.store)
	if err != nil {
		return err
	}
	for ; keep > 0 && len(ids) > 0; ids = ids[:len(ids)-1] {
		_, err := getList(ctx, p.store, ids[len(ids)-1])
		switch {
		case errors.Is(err, ErrNoBackup): // another Prune has just deleted it
		case err != nil:
			return err
		default:
			keep--
		}
	}
	for _, id := range ids {
		if err := p.store.Delete(ctx, listsDir+id); err != nil {
			return err
		}
		p.report.Backups = append(p.report.Backups, id)
	}
	return nil
}

// deleteFiles deletes the files that no list names, unless a backup is under way.
func (p *pruning) deleteFiles(ctx context.Context) error {
	held, err := newClaim(ctx, p.store, claimPrune)
	if err != nil {
		return err
	}
	defer held.release(ctx)
	busy, err := claimed(ctx, p.store, claimBackup)
	if mutant.On(mutant.FilePruned) {
		busy = false
	}
	if err != nil || busy {
		p.report.Busy = busy
		return err
	}
	needed, err := p.needed(ctx)
	if err != nil {
		return err
	}
	var garbage []Object
	for _, dir := range []string{filesDir, partialDir} {
		for o, err := range p.store.List(ctx, dir) {
			if err != nil {
				return err
			}
			if needed[o.Name] || !isOurs(o.Name) {
				continue
			}
			if len(needed) == 0 && dir == filesDir {
				return errUnlisted
			}
			garbage = append(garbage, o)
		}
	}
	for _, o := range garbage {
		if err := held.valid(); err != nil {
			return err
		}
		if err := p.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// errUnlisted says that a store has files, and no list.
var errUnlisted = fmt.Errorf("%w: the store has files of backups, but no list of one; bring the lists back, or remove the store if no backup in it is of use", ErrNoBackup)

// isOurs reports whether a backup makes objects of such a name. In a directory that is taken
// for a store by mistake, other files stay.
func isOurs(name string) bool {
	digits, size := strings.TrimPrefix(name, filesDir), sha256.Size
	if rest, ok := strings.CutPrefix(name, partialDir); ok {
		digits, size = rest, 8 // Dir names it by a number
	}
	b, err := hex.DecodeString(digits)
	return err == nil && len(b) == size && hex.EncodeToString(b) == digits
}

// delete deletes a file. The time limit is part of the claim: a backup that has waited until
// the claim lapsed must not lose a file.
func (p *pruning) delete(ctx context.Context, o Object) error {
	ctx, cancel := context.WithTimeout(ctx, claimLapse-claimValid)
	defer cancel()
	if err := p.store.Delete(ctx, o.Name); err != nil {
		return err
	}
	p.report.Files++
	p.report.Bytes += o.Size
	return nil
}

// needed returns the names of the objects that a list names.
func (p *pruning) needed(ctx context.Context) (map[string]bool, error) {
	ids, err := idsOf(ctx, p.store)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, id := range ids {
		l, err := getList(ctx, p.store, id)
		if errors.Is(err, ErrNoBackup) || err != nil && mutant.On(mutant.PruneUnread) {
			continue // another Prune has just deleted it
		}
		if err != nil {
			return nil, err
		}
		if mutant.On(mutant.PruneNewest) {
			clear(needed)
		}
		for i := range l.files {
			needed[l.files[i].object()] = true
		}
	}
	return needed, nil
}
