package filebackup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/work"
)

// ErrNoBackup says that the store has no such backup. Prune returns it if the store has files of
// backups, but no list of one.
var ErrNoBackup = errors.New("filebackup: no such backup")

// List describes the backups in a store, the oldest first. It reads their lists of files,
// but no files. With a damaged list it returns the other backups, and an error.
func List(ctx context.Context, store Store) (backups []Info, err error) {
	ctx = work.Given(ctx)
	ids, err := idsOf(ctx, store)
	for _, id := range ids {
		l, errList := getList(ctx, store, id)
		switch {
		case errors.Is(errList, ErrNoBackup): // Prune has just deleted it
		case errList != nil:
			err = errors.Join(err, errList)
		default:
			backups = append(backups, l.info())
		}
	}
	return backups, err
}

// idsOf returns the IDs of all backups, ascending.
func idsOf(ctx context.Context, store Store) (ids []string, err error) {
	for o, err := range store.List(ctx, listsDir) {
		if err != nil {
			return nil, err
		}
		if id := strings.TrimPrefix(o.Name, listsDir); isID(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func isID(id string) bool {
	_, ok := parseID(id)
	return ok
}

// newestOr returns id, or that of the newest backup if id is empty.
func newestOr(ctx context.Context, store Store, id string) (string, error) {
	if id != "" {
		return id, nil
	}
	ids, err := idsOf(ctx, store)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%w: the store has none", ErrNoBackup)
	}
	if err != nil {
		return "", err
	}
	return ids[len(ids)-1], nil
}

// orDeleted returns err, the error of a call that reads a backup. If a file is missing because
// the backup was deleted meanwhile, it returns ErrNoBackup instead.
func orDeleted(ctx context.Context, store Store, id string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, errList := getList(ctx, store, id); errors.Is(errList, ErrNoBackup) {
		return fmt.Errorf("%w: it was deleted meanwhile", ErrNoBackup)
	}
	return err
}

// getList returns the list of a backup.
func getList(ctx context.Context, store Store, id string) (*list, error) {
	if !isID(id) {
		return nil, fmt.Errorf("%w: %q is not the ID of one", ErrNoBackup, id)
	}
	b, err := getSmall(ctx, store, listsDir+id, listMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoBackup, id)
	}
	var l *list
	if err == nil {
		l, err = decodeList(b)
	}
	if err == nil && l.id != id {
		err = base.Corrupt(-1, "ID in a list of files", l.id, id)
	}
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", id, base.InFile(err, listsDir+id))
	}
	return l, nil
}
