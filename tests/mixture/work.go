package mixture

import "maps"

// A Work counts what lives came to, by the name of an operation or of an event.
type Work map[string]int

// The events that are counted beside the operations.
const (
	interrupted = "power cut inside an operation"
	fired       = "failing call"
	failed      = "failed database"
)

// Add adds the counts of another life.
func (w Work) Add(other Work) {
	for name, n := range other {
		w[name] += n
	}
}

// missing returns the operations and events that never happened.
func (w Work) missing() []string {
	want := map[string]bool{interrupted: true, fired: true, failed: true}
	for _, o := range operations {
		want[o.name] = true
	}
	maps.DeleteFunc(want, func(name string, _ bool) bool { return w[name] > 0 })
	var names []string
	for name := range want {
		names = append(names, name)
	}
	return names
}
