package salvage

import (
	"errors"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// copyAll copies all entries.
func (s *salvager) copyAll() ([]*manifest.Table, error) {
	inv, err := s.list()
	if err != nil {
		return nil, err
	}
	rules := map[uint32]*settings.Settings{}
	s.values = valueCopier{s: s, rules: settings.Walk{Of: func(n uint32) *settings.Settings {
		if rules[n] == nil {
			rules[n] = s.rules(n)
		}
		return rules[n]
	}}}
	defer s.values.close()
	if err := s.values.find(s.valueInputs(inv.values)); err != nil {
		return nil, err
	}
	tables, err := s.tableSources(inv.tables)
	if err != nil {
		return nil, err
	}
	logs, err := s.readLog(inv.logs)
	if err != nil {
		return nil, err
	}
	if tables, err = s.reduce(tables, false); err != nil {
		return nil, err
	}
	m, err := newMerger(append(tables, logs...))
	if err != nil {
		return nil, err
	}
	defer m.close()
	out := s.newOutput(false)
	defer out.close()
	if err := s.merge(m, out); err != nil {
		return nil, err
	}
	if err := out.finish(nil); err != nil {
		return nil, err
	}
	if err := s.values.finish(); err != nil {
		return nil, err
	}
	return out.tables, s.o.Stop()
}

// valueInputs returns the value files to read.
func (s *salvager) valueInputs(found []base.FileNum) (files []*valueInput) {
	hints := map[base.FileNum]*values.Hint{}
	if v := s.state.Version; v != nil {
		for _, l := range v.Values {
			hints[l.File] = &values.Hint{Num: l.Num, Salt: l.Salt}
			if s.known && !slices.Contains(found, l.File) {
				files = append(files, &valueInput{file: l.File, hint: hints[l.File]}) // opening it fails
			}
		}
	}
	for _, n := range found {
		// Commits of the log have files that the manifest does not know.
		files = append(files, &valueInput{file: n, hint: hints[n]})
	}
	return files
}

// merge copies the entries of m to the new database.
func (s *salvager) merge(m *merger, out *output) error {
	var key []byte
	inTable := false // a table has a version of the key
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := s.o.Stop(); err != nil {
				return err
			}
		}
		group, err := m.next()
		if err != nil || len(group) == 0 {
			return err
		}
		if k := group[0].Key; string(k) != string(key) {
			key, inTable = append(key[:0], k...), false
		}
		number, user, err := keyspace.Decode(key)
		if err == nil && s.spaces.dropped(number) {
			continue
		}
		if err == nil {
			err = s.spaces.note(number, user)
		}
		if err == nil {
			err = s.copyGroup(out, group, &inTable)
		}
		if err != nil {
			if s.values.failed(err) {
				return err
			}
			s.loseEntry(key, err)
		}
	}
}

// copyGroup copies the first copy of a version that can be copied. Copies in tables precede
// those in the log. inTable says that a table has a newer version of the key, and copyGroup
// sets it.
func (s *salvager) copyGroup(out *output, group []head, inTable *bool) (err error) {
	flushed := group[0].rank != ofLog // a table has this version
	if !flushed && *inTable && !s.known {
		return nil // a flush wrote it to a table, and what became of it there counts
	}
	*inTable = *inTable || flushed
	for _, h := range group {
		if h.rank == ofLog && flushed && h.Meta.Kind.Partial() && !s.known {
			return err // the copy in the table may have joined it with older versions
		}
		err = s.copyEntry(out, h.entry)
		if err == nil && h.rank == ofLog && flushed && !s.known {
			s.noteOnce("some values came from the log, because their value files are damaged; no compaction filter has seen them")
		}
		if err == nil || s.values.failed(err) {
			return err
		}
	}
	return err
}

// copyEntry copies one entry with its value.
func (s *salvager) copyEntry(out *output, e *entry) error {
	own := e.Entry
	if own.Meta.Kind.Partial() {
		var err error
		if s.steps, err = partial.Decode(s.steps[:0], own.Meta.Kind, own.Value); err != nil {
			return err
		}
	}
	ref, apart, err := s.values.place(&own, e.rank == ofLog)
	if err != nil {
		return err
	}
	if apart {
		err = out.addPointer(own, ref)
	} else {
		err = out.add(own)
	}
	if err == nil {
		s.report.Entries++
		s.losing = false
		s.lastSeq = max(s.lastSeq, own.Seq)
	}
	return written(err)
}

// loseEntry notes that an entry is lost. Consecutive entries of one file are one loss.
func (s *salvager) loseEntry(key []byte, err error) {
	l := Loss{Offset: -1, Entries: 1, Err: err, from: slices.Clone(key), to: slices.Clone(key)}
	var c *base.CorruptionError
	var p *vfs.PathError
	if errors.As(err, &c) {
		l.File, l.Offset = c.File, c.Offset
	} else if errors.As(err, &p) {
		l.File = s.fs.Base(p.Path)
	}
	if n := len(s.report.Lost); s.losing && s.report.Lost[n-1].File == l.File && s.report.More == 0 {
		s.report.Lost[n-1].Entries++
		s.report.Lost[n-1].to = l.to
		return
	}
	s.losing = true
	s.report.lose(l)
}
