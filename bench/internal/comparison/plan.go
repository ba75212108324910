package comparison

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Plan is the set of stores, workloads and datasets of a run.
type Plan struct {
	Stores    []stores.Info
	Workloads []workload.Workload
	Data      []string // names of the datasets

	Repeats int
	Scale   float64
	Pace    workload.Pace
	Dir     string // the directory of the databases
}

// NewPlan returns the plan of all stores, workloads and datasets, or of those
// that only names, separated by commas. Naming some of a kind excludes the
// others of that kind. A quick plan excludes the limited and the growing data,
// which take long at any scale, unless only names one of them.
func NewPlan(only string, quick bool) (Plan, error) {
	p := Plan{Stores: stores.All(), Workloads: workload.All()}
	names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' })
	large := slices.ContainsFunc(names, isLarge)
	for _, d := range workload.Datasets {
		if !quick || large || !isLarge(d.Name) {
			p.Data = append(p.Data, d.Name)
		}
	}
	return p.restrict(names)
}

// isLarge returns whether a name is that of data that is limited or grows, or of
// a workload that only such data has.
func isLarge(name string) bool {
	if d, ok := workload.FindDataset(name); ok {
		return d.Limited || d.Growth
	}
	w, ok := workload.Find(name)
	return ok && !slices.ContainsFunc(w.Data, func(data string) bool { return !isLarge(data) })
}

// Brief thins out the workloads that do the same on several datasets: first passes, and
// loads that no other workload reads. It keeps only their first dataset, and the limited
// one.
func (p Plan) Brief() Plan {
	p.Workloads = slices.Clone(p.Workloads)
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if !w.FirstPass && (!w.Heavy || !w.Fresh || w.Keeps) {
			continue
		}
		first := w.Data[0]
		w.Data = slices.DeleteFunc(slices.Clone(w.Data), func(data string) bool { return data != first && !workload.IsLimited(data) })
	}
	return p
}

func (p Plan) restrict(names []string) (Plan, error) {
	var s []stores.Info
	var w []workload.Workload
	var d []string
	for _, name := range names {
		info, isStore := stores.Find(name)
		work, isWorkload := workload.Find(name)
		switch {
		case isStore:
			s = append(s, info)
		case isWorkload:
			w = append(w, work)
		case slices.Contains(p.Data, name):
			d = append(d, name)
		default:
			return Plan{}, fmt.Errorf("%q is not one of the stores (%s), workloads (%s) or datasets (%s)",
				name, strings.Join(storeNames(p.Stores), ", "), strings.Join(workloadNames(p.Workloads), ", "),
				strings.Join(p.Data, ", "))
		}
	}
	p.Stores = chosen(p.Stores, s, func(i stores.Info) string { return i.Name })
	p.Workloads = chosen(p.Workloads, w, func(w workload.Workload) string { return w.Name })
	p.Data = chosen(p.Data, d, func(name string) string { return name })
	return p, nil
}

// chosen returns the named elements of all, or all if none is named. It keeps
// the order of all, because a workload may read what an earlier one loaded.
func chosen[T any](all, named []T, name func(T) string) []T {
	if named == nil {
		return all
	}
	isNamed := func(one T) bool {
		return slices.ContainsFunc(named, func(n T) bool { return name(n) == name(one) })
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !isNamed(one) })
}

func storeNames(infos []stores.Info) []string {
	var names []string
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}

func workloadNames(workloads []workload.Workload) []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return names
}

// A Step is one job of a plan.
type Step struct {
	Job      workload.Job
	Workload workload.Workload
	Info     stores.Info

	// Frees are the directories that no later step uses.
	Frees []string
}

// Limited returns whether a step runs under a memory limit.
func (s Step) Limited() bool { return workload.IsLimited(s.Job.Data) }

// Key identifies a step among those of all repeats.
func (s Step) Key() string { return key(s.Job) }

func key(j workload.Job) string {
	return fmt.Sprintf("%s %s %s %d", j.Store, j.Workload, j.Data, j.Repeat)
}

// Steps lists the jobs in order: by repeat, dataset and workload, and the stores
// in turn. A run cut short thus has everything once before it has anything
// twice.
func (p Plan) Steps() []Step {
	var steps []Step
	for repeat := 1; repeat <= p.Repeats; repeat++ {
		turn := repeat - 1
		for _, chain := range p.chains() {
			if (repeat-1)%rareEvery != 0 {
				chain.workloads = slices.DeleteFunc(chain.workloads, func(w workload.Workload) bool { return w.Rare })
			}
			steps = append(steps, p.chainSteps(chain, repeat, turn)...)
			turn += chain.turns()
		}
	}
	findLastUses(steps)
	return steps
}

// findLastUses sets Frees of each step to the directories that it uses last. Each repeat
// makes its copies again, and what its own steps load. So it frees them. Only a database that
// no step of the plan loads stays until the last repeat. A step that uses a copy also uses
// the original.
func findLastUses(steps []Step) {
	loads := map[string]bool{} // by directory
	for _, s := range steps {
		loads[s.Job.Dir] = loads[s.Job.Dir] || s.Workload.Fresh
	}
	seen := map[string]bool{}
	for i := len(steps) - 1; i >= 0; i-- {
		s := &steps[i]
		free := func(dir string, eachRepeat bool) {
			name := dir
			if eachRepeat {
				name = fmt.Sprint(dir, s.Job.Repeat)
			}
			if !seen[name] {
				s.Frees = append(s.Frees, dir)
			}
			seen[name] = true
		}
		dir := s.Job.Dir
		if original, isCopy := strings.CutSuffix(dir, copySuffix); isCopy {
			free(original, loads[original])
			free(dir, true)
			continue
		}
		free(dir, loads[dir])
	}
}

// Missing returns how many steps of the plan the record does not have.
func (p Plan) Missing(rec *Record) int {
	done := rec.done()
	missing := 0
	for _, s := range p.Steps() {
		if !done[s.Key()] {
			missing++
		}
	}
	return missing
}

// GoesOnWith returns whether a run with settings s resumes the record by itself.
// The record must lack a part of the plan. The same machine must have measured last, with the
// same revision of stoat.
func (p Plan) GoesOnWith(rec *Record, s Settings) bool {
	then, now := rec.lastMachine(), s.Machine
	then.Revision, now.Revision = commitOf(then.Revision), commitOf(now.Revision)
	return then == now && rec.Settings.Scale == s.Scale && rec.Settings.Pace == s.Pace && p.Missing(rec) > 0
}

// rareEvery: the rare workloads run in one of rareEvery repeats.
const rareEvery = 3

// A chain is a dataset with the workloads that share one directory: one loads
// it, the others read it. A workload with its own directory is a chain by
// itself.
type chain struct {
	data      string
	workloads []workload.Workload
	byStore   bool // run all workloads of a store before the next store, to keep one database at a time
	limited   bool
}

// slowUnderLimit maps a store to how many times longer than the others its load
// under a memory limit takes. These stores come last, so that a run out of time
// lacks as few stores as possible.
var slowUnderLimit = map[string]float64{"badger": 6, "bbolt": 5, "lmdb": 4}

// chains lists the chains. Those that take longest come last.
func (p Plan) chains() []chain {
	var shared, own, limited []chain
	for _, data := range p.Data {
		c := chain{data: data}
		for _, w := range p.Workloads {
			if !slices.Contains(w.Data, data) {
				continue
			}
			if w.Fresh && !w.Keeps {
				own = append(own, chain{data: data, workloads: []workload.Workload{w}, byStore: true})
				continue
			}
			c.workloads = append(c.workloads, w)
		}
		c.limited = workload.IsLimited(data)
		c.byStore = c.limited
		switch {
		case c.workloads == nil:
		case c.byStore:
			limited = append(limited, c)
		default:
			shared = append(shared, c)
		}
	}
	return slices.Concat(shared, own, limited)
}

// turns returns how often the stores of a chain take turns.
func (c chain) turns() int {
	if c.byStore {
		return 1
	}
	return len(c.workloads)
}

// chainSteps lists the steps of a chain. The store with the number turn begins the first
// turn, and the next store each further one.
func (p Plan) chainSteps(c chain, repeat, turn int) []Step {
	var steps []Step
	add := func(w workload.Workload, i int, turn int) {
		info := p.Stores[(i+turn)%len(p.Stores)]
		if !w.Runs(info.Name) {
			return
		}
		steps = append(steps, p.step(c, w, info, repeat))
	}
	if c.byStore {
		for i := range p.Stores {
			for _, w := range c.workloads {
				add(w, i, turn)
			}
		}
		if c.limited {
			slices.SortStableFunc(steps, func(a, b Step) int {
				return cmp.Compare(slowUnderLimit[a.Info.Name], slowUnderLimit[b.Info.Name])
			})
		}
		return steps
	}
	for n, w := range c.workloads {
		for i := range p.Stores {
			add(w, i, turn+n)
		}
	}
	return steps
}

// copySuffix ends the name of a database copy, which workloads may change.
const copySuffix = "-copy"

func (p Plan) step(c chain, w workload.Workload, info stores.Info, repeat int) Step {
	dir := info.Name + "-" + c.data
	switch {
	case w.Fresh && !w.Keeps:
		dir += "-" + w.Name
	case w.Changes:
		dir += copySuffix
	}
	return Step{
		Workload: w, Info: info,
		Job: workload.Job{
			Store: info.Name, Workload: w.Name, Data: c.data, Repeat: repeat,
			Scale: p.Scale, Pace: p.Pace, Dir: filepath.Join(p.Dir, dir),
		},
	}
}
