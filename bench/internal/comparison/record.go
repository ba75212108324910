package comparison

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Record is everything one run measured. It is a file of JSON lines: the
// settings first, then a line for each thing measured, as it comes.
type Record struct {
	Settings Settings
	Limits   []map[string]float64
	Results  []workload.Result

	// Stores are those that the run had built in, as they were configured. A
	// report may be made by a program that has others.
	Stores []StoreNote

	// Note is what a person has to say of the run, as Markdown; it lies in a
	// file beside the record.
	Note string

	// LaterRevisions are those of the programs with which the run went on, if
	// they are not the one it began with: its figures are not all of one stoat.
	LaterRevisions []string
}

// Settings are what a run began with. A run goes on only under the same
// scale and pace.
type Settings struct {
	Began   time.Time     `json:"began"`
	Scale   float64       `json:"scale"`
	Pace    workload.Pace `json:"pace"`
	Machine Machine       `json:"machine"`
}

// A StoreNote is what a report says of a store.
type StoreNote struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Options string `json:"options"`
}

// A line is one entry of the file; one of its fields is there.
type line struct {
	Settings *Settings          `json:"settings,omitempty"`
	Revision string             `json:"revision,omitempty"`
	Store    *StoreNote         `json:"store,omitempty"`
	Limits   map[string]float64 `json:"limits,omitempty"`
	Result   *workload.Result   `json:"result,omitempty"`
}

// ErrOtherSettings says that the file belongs to a run of another kind.
var ErrOtherSettings = errors.New("the file has the results of other settings")

// Read reads the record at path, and its note, if there is one.
func Read(path string) (*Record, error) {
	rec, _, err := read(path)
	return rec, err
}

// noteEnding takes the place of a record's ending in the name of its note.
const noteEnding = ".note.md"

func readNote(path string) (string, error) {
	note, err := os.ReadFile(strings.TrimSuffix(path, ".jsonl") + noteEnding)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(note)), err
}

// read also returns how many bytes of the file are whole lines. What comes
// after them was being written when its run was killed.
func read(path string) (rec *Record, whole int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	rec = new(Record)
	if rec.Note, err = readNote(path); err != nil {
		return nil, 0, err
	}
	in := bufio.NewReader(f)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return rec, whole, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, 0, fmt.Errorf("%s, after %d bytes: %w", path, whole, err)
		}
		rec.add(l)
		whole += int64(len(text))
	}
}

// done names the jobs that have a result.
func (rec *Record) done() map[string]bool {
	done := map[string]bool{}
	for _, r := range rec.Results {
		done[key(r.Job)] = true
	}
	return done
}

func (rec *Record) add(l line) {
	switch {
	case l.Settings != nil:
		rec.Settings = *l.Settings
	case l.Revision != "":
		rec.LaterRevisions = append(rec.LaterRevisions, l.Revision)
	case l.Store != nil:
		rec.Stores = append(rec.Stores, *l.Store)
	case l.Limits != nil:
		rec.Limits = append(rec.Limits, l.Limits)
	case l.Result != nil:
		rec.Results = append(rec.Results, *l.Result)
	}
}

// A Writer appends to a record on disk and in memory.
type Writer struct {
	Record *Record
	file   *os.File
}

// Open opens the record at path, or begins one with those settings. That
// another revision goes on with it is noted.
func Open(path string, s Settings) (*Writer, error) {
	rec, whole, err := read(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && whole == 0 {
		return create(path, s)
	}
	if err != nil {
		return nil, err
	}
	if rec.Settings.Scale != s.Scale || rec.Settings.Pace != s.Pace {
		return nil, fmt.Errorf("%s: %w: scale %v and pace %+v, not %v and %+v",
			path, ErrOtherSettings, rec.Settings.Scale, rec.Settings.Pace, s.Scale, s.Pace)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	w := &Writer{Record: rec, file: f}
	if err := errors.Join(f.Truncate(whole), seekEnd(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if now := s.Machine.Revision; now != "" && now != rec.lastRevision() {
		if err := w.append(line{Revision: now}); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return w, nil
}

// lastRevision is that of the program that measured last.
func (rec *Record) lastRevision() string {
	if n := len(rec.LaterRevisions); n > 0 {
		return rec.LaterRevisions[n-1]
	}
	return rec.Settings.Machine.Revision
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

func create(path string, s Settings) (*Writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{Record: new(Record), file: f}
	if err := w.append(line{Settings: &s}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// AddResult appends what a job measured. Records are shown to others, whom the
// directories of this machine tell nothing: they are left out.
func (w *Writer) AddResult(r workload.Result) error {
	if dir := r.Job.Dir; dir != "" {
		r.Detail, r.Stats = strings.ReplaceAll(r.Detail, dir, "."), strings.ReplaceAll(r.Stats, dir, ".")
	}
	r.Job.Dir = ""
	return w.append(line{Result: &r})
}

// NoteStore notes how a store is configured, unless it says so already.
func (w *Writer) NoteStore(n StoreNote) error {
	if slices.Contains(w.Record.Stores, n) {
		return nil
	}
	return w.append(line{Store: &n})
}

// AddLimits appends what the machine can do.
func (w *Writer) AddLimits(limits map[string]float64) error { return w.append(line{Limits: limits}) }

func (w *Writer) append(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := w.file.Write(append(text, '\n')); err != nil {
		return err
	}
	w.Record.add(l)
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }
