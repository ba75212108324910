package stoat

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/door"
	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// Open opens the database in the directory dir. It creates the directory and the
// database if they do not exist, unless Options.MustExist is set. opts may be nil.
// The caller must Close the database. Open resolves a relative dir once: the working
// directory of the process may change later.
//
// Open returns ErrLocked while another open holds the database. It returns
// ErrCorrupt when a file differs from what was written. It returns ErrVersion when
// the database has a format or a feature of a later version of stoat. With
// Options.MustExist or Options.ReadOnly and without a database, it returns
// fs.ErrNotExist of package io/fs.
func Open(dir string, opts *Options) (*DB, error) {
	return open(dir, opts.withDefaults(), engine.Options{})
}

// init opens the door for tests, which need an executor of their own and the engine.
func init() {
	door.Open = func(dir string, opts any, exec work.Executor) (db, inner any, err error) {
		d, err := open(dir, opts.(*Options).withDefaults(), engine.Options{Executor: exec})
		if err != nil {
			return nil, nil, err
		}
		return d, &d.engine, nil
	}
	door.Inner = func(tx any) any { return tx.(Txn).t }
	door.Outer = func(tx any) any { return Txn{tx.(transaction.Txn)} }
}

// open opens a database. It takes from extra what Options do not have.
func open(dir string, opts Options, extra engine.Options) (*DB, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	path, err := absolute(opts.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	d := &DB{opts: opts, reports: reporter{events: opts.Events, logger: opts.Logger}}
	o := d.opts.engine(vfs.Strict(opts.FS, path), path)
	o.Executor, o.Upgrade, o.Follows, o.Report = extra.Executor, extra.Upgrade, extra.Follows, d.reports.emit
	o.Screen = d.opts.screen(o.Report)
	if err := d.engine.Open(o); err != nil {
		d.reports.queue.End()
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return d, nil
}

// absolute returns the absolute path of a directory that the caller named. It
// refuses an empty name, which would mean the working directory: the program
// probably forgot to set its path.
func absolute(fs vfs.FS, dir string) (string, error) {
	if dir == "" {
		return "", errNoName
	}
	return fs.Abs(dir)
}

// engine returns the options of the engine for a database in dir, without what connects
// it to a DB.
func (o *Options) engine(fs vfs.FS, dir string) engine.Options {
	e := engine.Options{FS: fs, Dir: dir, ReadOnly: o.ReadOnly, FollowEvery: o.FollowEvery, MustExist: o.MustExist, Clock: o.Clock,
		MemoryBudget: o.MemoryBudget, MemtableSize: o.MemtableSize, Durability: transaction.Durability(o.Durability),
		Keys: o.Keys, DataKeyAge: o.DataKeyAge, Settings: o.given()}
	for _, f := range o.MergeFunctions {
		e.MergeFunctions = append(e.MergeFunctions, f)
	}
	return e
}
