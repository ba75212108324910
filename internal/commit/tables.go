package commit

import (
	"context"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// CommitTables commits tables that were written beside the log, and returns their
// version. install makes them live, as the newest run of level 0. The gate of way, which may
// be nil, must admit them. ctx is that of an operation.
//
// A read stops at the first structure that has its key. So memtables must not hold older
// versions than the tables. CommitTables holds commits up, flushes all memtables, and
// calls install while nothing newer exists. It first flushes without holding commits up,
// so that little is left.
//
// Recovery accepts that the log lacks the version: the edit of install says that
// everything up to it is in tables.
func (c *Committer) CommitTables(ctx context.Context, way *Passage, install func(seq base.SeqNum) error) (base.SeqNum, error) {
	if err := c.flushBefore(ctx); err != nil {
		return 0, err
	}
	defer c.letGo()
	if err := c.holdUp(ctx); err != nil {
		return 0, err
	}
	if !c.ingesting.LockUntil(ctx.Done()) {
		return 0, ctx.Err()
	}
	defer c.ingesting.Unlock()
	for {
		if err := c.flushBefore(ctx); err != nil {
			return 0, err
		}
		// A leader may have passed begin before.
		if seq, done, err := c.commitTables(way, install); done {
			return seq, err
		}
	}
}

func (c *Committer) flushBefore(ctx context.Context) error {
	if mutant.On(mutant.IngestUnflushed) {
		return nil
	}
	return c.FlushAll(ctx)
}

// commitTables does the last step of CommitTables, unless there is something to flush.
func (c *Committer) commitTables(way *Passage, install func(seq base.SeqNum) error) (seq base.SeqNum, done bool, err error) {
	c.build.Lock()
	defer c.build.Unlock()
	if c.lastGroup != nil {
		<-c.lastGroup.done
	}
	if err := c.Failed(); err != nil {
		return 0, true, err
	}
	v := c.store.View()
	if (len(v.Memtables) > 1 || v.Memtables[0].Len() > 0) && !mutant.On(mutant.IngestUnflushed) {
		return 0, false, nil
	}
	if way != nil {
		if err := way.admitted(); err != nil {
			return 0, true, err
		}
	}
	if c.lastSeq == base.SeqNumMax {
		return 0, true, ErrVersionsSpent
	}
	seq = c.lastSeq + 1
	if err := install(seq); err != nil {
		if c.store.EditErr() != nil {
			return 0, true, c.Fail(err)
		}
		c.o.Space.WriteFailed(err)
		return 0, true, err
	}
	c.lastSeq = seq
	c.History.noteTables(seq)
	c.store.SetApplied(seq)
	c.store.SetVisible(seq)
	c.store.NotePublished(seq, c.o.Activity.Note())
	c.History.ring()
	c.Counts.Commits.Add(1)
	return seq, true, nil
}

// awaitTables waits for the end of CommitTables. When ctx is done before that, it returns the
// error of ctx.
func (c *Committer) awaitTables(ctx context.Context) error {
	if !c.ingesting.LockUntil(ctx.Done()) {
		return ctx.Err()
	}
	c.ingesting.Unlock()
	return nil
}
