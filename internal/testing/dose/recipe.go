package dose

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A recipe is what it takes to run one test again.
type recipe struct {
	target string // of the Makefile; empty: a go test command
	pkg    string // import path
	test   string // name, as -run takes it
	build  []string

	names  []string // "seed" first, then the sizes in the order they were set
	values map[string]string
}

// recipes holds the recipe of each running test that asked for a dose.
var recipes = struct {
	sync.Mutex
	of map[testing.TB]*recipe
}{of: map[testing.TB]*recipe{}}

// recipeOf returns the recipe of t. The first call for t arranges that a
// failure prints it.
func recipeOf(t testing.TB) *recipe {
	t.Helper()
	recipes.Lock()
	defer recipes.Unlock()
	if r, ok := recipes.of[t]; ok {
		return r
	}
	r := &recipe{test: t.Name(), pkg: packageOf(t.Name()), build: buildFlags(), values: map[string]string{}}
	recipes.of[t] = r
	t.Cleanup(func() {
		recipes.Lock()
		delete(recipes.of, t)
		recipes.Unlock()
		if t.Failed() {
			t.Logf("reproduce: %s", r)
		}
	})
	return r
}

// set gives the seed or a size its value.
func (r *recipe) set(name string, value any) {
	if _, ok := r.values[name]; !ok {
		at := len(r.names)
		if name == "seed" {
			at = 0
		}
		r.names = slices.Insert(r.names, at, name)
	}
	r.values[name] = fmt.Sprint(value)
}

// String returns the command as one line.
func (r *recipe) String() string {
	if r.target != "" {
		return r.makeLine()
	}
	return r.testLine()
}

// makeLine is the command as a target of the Makefile, whose variables are
// the names in capitals.
func (r *recipe) makeLine() string {
	line := "make " + r.target
	for _, name := range r.names {
		line += fmt.Sprintf(" %s=%s", strings.ToUpper(name), r.values[name])
	}
	return line
}

// testLine is the command as a go test of the package. The elements of a
// subtest's name are anchored one by one, as -run matches them.
func (r *recipe) testLine() string {
	run := "^" + strings.ReplaceAll(r.test, "/", "$/^") + "$"
	words := append([]string{"go", "test", "-count=1"}, r.build...)
	words = append(words, "-run", "'"+run+"'", r.pkg, "-args")
	for _, name := range r.names {
		words = append(words, "-stoat."+name+"="+r.values[name])
	}
	return strings.TrimSuffix(strings.Join(words, " "), " -args")
}

// packageOf returns the import path of the package that holds the named test.
// It is found on the stack, as the function of that name: testing does not
// tell it.
func packageOf(test string) string {
	test, _, _ = strings.Cut(test, "/")
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		// The name is "path/to/pkg.TestX", or "….TestX.func1" in a closure,
		// and the package of an external test ends in "_test".
		slash := strings.LastIndexByte(frame.Function, '/')
		pkg, name, _ := strings.Cut(frame.Function[slash+1:], ".")
		if name == test || strings.HasPrefix(name, test+".") {
			return frame.Function[:slash+1] + strings.TrimSuffix(pkg, "_test")
		}
		if !more {
			return "./..."
		}
	}
}
