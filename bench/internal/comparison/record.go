package comparison

import (
	"bufio"
	"cmp"
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

// A Record is everything one run measured. Its file has JSON lines: first the
// settings, then one line per measurement in order of time.
type Record struct {
	Settings Settings
	Limits   []Limits
	Results  []workload.Result

	// Stores are the stores of the program that ran, with their configuration.
	// The program that writes a report may have others.
	Stores []StoreNote

	// Note is a handwritten remark on the run, as Markdown. It is read from a
	// file beside the record.
	Note string

	// LaterMachines are the machines that resumed the run, each with its revision of stoat. A
	// start with the machine and the revision of the one before adds none. The figures then mix
	// machines or revisions.
	LaterMachines []Machine

	// sources are the machines that measured the results, in their order.
	sources []Machine
}

// Limits are the limits of a machine by name.
type Limits struct {
	Machine Machine
	Values  map[string]float64
}

// Machines returns the machines of the run in the order of time, each with its revision of
// stoat.
func (rec *Record) Machines() []Machine {
	return append([]Machine{rec.Settings.Machine}, rec.LaterMachines...)
}

// MachineOf returns the machine that measured the result with this index, and its revision of
// stoat. It is zero if the record does not say.
func (rec *Record) MachineOf(result int) Machine {
	if result < len(rec.sources) {
		return rec.sources[result]
	}
	return Machine{}
}

// Settings are the settings at the start of a run. A run resumes only with the
// same scale and pace.
type Settings struct {
	Began   time.Time     `json:"began"`
	Scale   float64       `json:"scale"`
	Pace    workload.Pace `json:"pace"`
	Machine Machine       `json:"machine"`
}

// A StoreNote describes a store in a report.
type StoreNote struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Options string `json:"options"`
}

// A line is one entry of the file. Exactly one of its fields is set. Records up to 2026-11-30
// have a revision where newer ones have a machine.
type line struct {
	Settings *Settings          `json:"settings,omitempty"`
	Machine  *Machine           `json:"machine,omitempty"`
	Revision string             `json:"revision,omitempty"`
	Store    *StoreNote         `json:"store,omitempty"`
	Limits   map[string]float64 `json:"limits,omitempty"`
	Result   *workload.Result   `json:"result,omitempty"`
}

// ErrOtherSettings says that the file has the results of a run with other
// settings.
var ErrOtherSettings = errors.New("the file has results of other settings")

// Read reads the record at path, and its note, if there is one.
func Read(path string) (*Record, error) {
	rec, _, err := read(path)
	return rec, err
}

// noteSuffix replaces the suffix of a record in the name of its note.
const noteSuffix = ".note.md"

func readNote(path string) (string, error) {
	note, err := os.ReadFile(strings.TrimSuffix(path, ".jsonl") + noteSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(note)), err
}

// read also returns how many bytes of the file are whole lines. The rest is a
// line that a killed run did not finish.
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

// done returns the keys of the jobs that have a result.
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
	case l.Machine != nil:
		rec.LaterMachines = append(rec.LaterMachines, *l.Machine)
	case l.Revision != "":
		later := rec.lastMachine()
		later.Revision = l.Revision
		rec.LaterMachines = append(rec.LaterMachines, later)
	case l.Store != nil:
		rec.Stores = append(rec.Stores, *l.Store)
	case l.Limits != nil:
		rec.Limits = append(rec.Limits, Limits{rec.lastMachine(), l.Limits})
	case l.Result != nil:
		rec.Results = append(rec.Results, *l.Result)
		rec.sources = append(rec.sources, rec.lastMachine())
	}
}

// A Writer appends to a record on disk and in memory.
type Writer struct {
	Record *Record
	file   *os.File
}

// Open opens the record at path, or creates one with settings s. It appends the machine of s
// if another machine or another revision of stoat measured before.
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
	now, last := s.Machine, rec.lastMachine()
	now.Revision = cmp.Or(now.Revision, last.Revision) // one that is not known counts as the same
	if now != last {
		if err := w.append(line{Machine: &now}); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return w, nil
}

// lastMachine returns the machine that measured last.
func (rec *Record) lastMachine() Machine {
	if n := len(rec.LaterMachines); n > 0 {
		return rec.LaterMachines[n-1]
	}
	return rec.Settings.Machine
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

// AddResult appends the result of a job. It removes the names of directories,
// because records are published.
func (w *Writer) AddResult(r workload.Result) error {
	if dir := r.Job.Dir; dir != "" {
		r.Detail, r.Stats = strings.ReplaceAll(r.Detail, dir, "."), strings.ReplaceAll(r.Stats, dir, ".")
	}
	r.Job.Dir = ""
	return w.append(line{Result: &r})
}

// NoteStore appends the configuration of a store, unless the record has it.
func (w *Writer) NoteStore(n StoreNote) error {
	if slices.Contains(w.Record.Stores, n) {
		return nil
	}
	return w.append(line{Store: &n})
}

// AddLimits appends the limits of the machine.
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
