package comparison

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Plan says what is compared.
type Plan struct {
	Stores    []stores.Info
	Workloads []workload.Workload
	Data      []string // names of the datasets

	Repeats int
	Scale   float64
	Pace    workload.Pace
	Dir     string // for the databases
}

// NewPlan returns the plan of everything, or of what only names: stores,
// workloads and datasets, separated by commas. Naming some of a kind leaves
// out the others of that kind. The limited workloads, which take long at any
// scale, are left out of a quick plan unless they are named.
func NewPlan(only string, quick bool) (Plan, error) {
	p := Plan{Stores: stores.All(), Workloads: workload.All()}
	for _, d := range workload.Datasets {
		p.Data = append(p.Data, d.Name)
	}
	names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' })
	if quick && !slices.ContainsFunc(names, isLimited) {
		p.Workloads = slices.DeleteFunc(p.Workloads, func(w workload.Workload) bool { return w.Limited })
	}
	return p.restrict(names)
}

func isLimited(name string) bool {
	w, ok := workload.Find(name)
	return ok && w.Limited
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
			return Plan{}, fmt.Errorf("%q is none of the stores (%s), workloads (%s) or datasets (%s)",
				name, strings.Join(storeNames(p.Stores), ", "), strings.Join(workloadNames(p.Workloads), ", "),
				strings.Join(p.Data, ", "))
		}
	}
	if s != nil {
		p.Stores = s
	}
	if w != nil {
		p.Workloads = w
	}
	if d != nil {
		p.Data = d
	}
	return p, nil
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

	// Last says that no later step uses the directory.
	Last bool
}

// Key names a step among those of all repeats.
func (s Step) Key() string { return key(s.Job) }

func key(j workload.Job) string {
	return fmt.Sprintf("%s %s %s %d", j.Store, j.Workload, j.Data, j.Repeat)
}

// Steps lists the jobs in their order: by repeat, by dataset, by workload, and
// the stores in turn.
func (p Plan) Steps() []Step {
	var steps []Step
	for repeat := 1; repeat <= p.Repeats; repeat++ {
		for _, chain := range p.chains() {
			if chain.heavy && (repeat-1)%heavyEvery != 0 {
				continue
			}
			steps = append(steps, p.chainSteps(chain, repeat)...)
		}
	}
	return steps
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

// heavyEvery is the number of repeats of which one has the heavy workloads.
const heavyEvery = 3

// A chain is a dataset with the workloads that use one directory of it, one
// after the other. Workloads with a directory of their own are a chain each.
type chain struct {
	data      string
	workloads []workload.Workload
	heavy     bool
	byStore   bool // one store after the other, to have one database at a time
}

func (p Plan) chains() []chain {
	var shared, own []chain
	for _, data := range p.Data {
		c := chain{data: data}
		for _, w := range p.Workloads {
			if !slices.Contains(w.Data, data) {
				continue
			}
			if w.Fresh && !w.Keeps {
				own = append(own, chain{data: data, workloads: []workload.Workload{w}, heavy: w.Heavy, byStore: true})
				continue
			}
			c.workloads = append(c.workloads, w)
			c.heavy = c.heavy || w.Heavy
			c.byStore = c.byStore || w.Limited
		}
		if c.workloads != nil {
			shared = append(shared, c)
		}
	}
	return append(shared, own...)
}

func (p Plan) chainSteps(c chain, repeat int) []Step {
	var steps []Step
	add := func(w workload.Workload, i int, turn int) {
		info := p.Stores[(i+turn)%len(p.Stores)]
		steps = append(steps, p.step(c, w, info, repeat))
	}
	if c.byStore {
		for i := range p.Stores {
			for _, w := range c.workloads {
				add(w, i, repeat-1)
			}
		}
		return steps
	}
	for n, w := range c.workloads {
		for i := range p.Stores {
			add(w, i, repeat-1+n)
		}
	}
	return steps
}

func (p Plan) step(c chain, w workload.Workload, info stores.Info, repeat int) Step {
	dir := info.Name + "-" + c.data
	if w.Fresh && !w.Keeps {
		dir += "-" + w.Name
	}
	return Step{
		Workload: w, Info: info, Last: w.Name == c.workloads[len(c.workloads)-1].Name,
		Job: workload.Job{
			Store: info.Name, Workload: w.Name, Data: c.data, Repeat: repeat,
			Scale: p.Scale, Pace: p.Pace, Dir: filepath.Join(p.Dir, dir),
		},
	}
}
