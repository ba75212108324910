package check

import (
	"bytes"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
)

// A layer iterates over the keys of one run of level 0, or of another level. Every version
// of a key in a layer is newer than those in the layers below. So a point read stops at the
// first layer that has the key.
type layer struct {
	open   func(*manifest.Table) (*table.Reader, error)
	tables []*manifest.Table // the remaining tables
	r      *table.Reader     // of the current table, or nil
	name   string            // of the current table
	in     table.Iter
	batch  iter.Batch
	at     int // current entry in batch
	ended  bool
}

// fill makes sure that there is a current entry, unless the layer has ended.
func (l *layer) fill() error {
	for l.at >= l.batch.N && !l.ended {
		if l.r != nil {
			if err := l.in.Fill(&l.batch); err != nil {
				return err
			}
			if l.at = 0; l.batch.N > 0 {
				return nil
			}
			if err := l.close(); err != nil {
				return err
			}
		}
		if len(l.tables) == 0 {
			l.ended = true
			return nil
		}
		r, err := l.open(l.tables[0])
		if err != nil {
			return err
		}
		l.r, l.name, l.tables = r, base.TableName(l.tables[0].Num), l.tables[1:]
		l.in.Init(r, table.IterOptions{KeysOnly: true, Unmapped: true})
		l.in.Seek(nil)
	}
	return nil
}

func (l *layer) close() error {
	r := l.r
	l.r = nil
	if r == nil {
		return nil
	}
	return r.Close()
}

func (l *layer) key() []byte { return l.batch.Entries[l.at].Key }

// layersOf returns the layers of a version, the newest first.
func (c *checker) layersOf(v *manifest.Version) []*layer {
	var layers []*layer
	for i := range v.Runs() {
		layers = append(layers, &layer{open: c.o.OpenTable, tables: v.Run(i)})
	}
	for _, tables := range v.Levels[1:] {
		if len(tables) > 0 {
			layers = append(layers, &layer{open: c.o.OpenTable, tables: tables})
		}
	}
	for _, l := range layers {
		l.batch.Want = iter.BatchSize
	}
	return layers
}

// checkAges checks that each layer is newer than those below. It needs sound tables,
// so it does nothing after another problem.
func (c *checker) checkAges() (err error) {
	layers := c.layersOf(c.o.State.Version)
	if len(layers) < 2 || len(c.report.Problems) > 0 {
		return nil
	}
	defer func() {
		for _, l := range layers {
			if e := l.close(); err == nil {
				err = e
			}
		}
	}()
	var key []byte
	for n := 0; ; n++ {
		if n%4096 == 0 {
			if err := c.stop(); err != nil {
				return err
			}
		}
		first, err := least(layers)
		if err != nil || first == nil {
			return c.report.note(err)
		}
		key = append(key[:0], first.key()...)
		if err := c.checkAge(layers, key); err != nil || len(c.report.Problems) > problemsMax {
			return c.report.note(err)
		}
	}
}

// least returns a layer at the smallest key, or nil if all have ended.
func least(layers []*layer) (*layer, error) {
	var first *layer
	for _, l := range layers {
		if err := l.fill(); err != nil {
			return nil, err
		}
		if !l.ended && (first == nil || bytes.Compare(l.key(), first.key()) < 0) {
			first = l
		}
	}
	return first, nil
}

// checkAge moves past all versions of key, in every layer.
func (c *checker) checkAge(layers []*layer, key []byte) error {
	oldest := base.SeqNumMax // smallest sequence number in the layers above
	for _, l := range layers {
		mine := oldest
		for {
			if err := l.fill(); err != nil {
				return err
			}
			if l.ended || !bytes.Equal(l.key(), key) {
				break
			}
			if seq := l.batch.Entries[l.at].Seq; seq >= oldest {
				c.report.add(base.InFile(base.Corrupt(-1, fmt.Sprintf("age of key %q", key),
					fmt.Sprintf("version %d", seq), fmt.Sprintf("one before %d, which is in a higher level", oldest)), l.name))
			} else {
				mine = min(mine, seq)
			}
			l.at++
		}
		oldest = mine
	}
	return nil
}
