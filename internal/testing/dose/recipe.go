package dose

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A recipe is what is needed to repeat one test.
type recipe struct {
	target string // of the Makefile; empty: a go test command
	pkg    string // import path
	test   string // name, as -run takes it
	build  []string

	names  []string // "seed" first, then the sizes in the order they were set
	values map[string]string
}

// recipes holds the recipe of each running test that uses dose.
var recipes = struct {
	sync.Mutex
	of map[testing.TB]*recipe
}{of: map[testing.TB]*recipe{}}

// recipeOf returns the recipe of t. The first call makes a failure of t print
// the recipe.
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

// set sets the seed or a size.
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

// makeLine returns the command as a target of the Makefile. Its variables are
// the names in capitals.
func (r *recipe) makeLine() string {
	line := "make " + r.target
	for _, name := range r.names {
		line += fmt.Sprintf(" %s=%s", strings.ToUpper(name), r.values[name])
	}
	return line
}

// testLine returns the command as a go test of the package. It anchors each
// element of a subtest's name, because -run matches them one by one.
func (r *recipe) testLine() string {
	run := "^" + strings.ReplaceAll(r.test, "/", "$/^") + "$"
	words := append([]string{"go", "test", "-count=1"}, r.build...)
	words = append(words, "-run", "'"+run+"'", r.pkg, "-args")
	for _, name := range r.names {
		words = append(words, "-stoat."+name+"="+r.values[name])
	}
	return strings.TrimSuffix(strings.Join(words, " "), " -args")
}

// packageOf returns the import path of the package of the named test. It
// searches the stack for the test's function, because testing does not provide
// the path.
func packageOf(test string) string {
	test, _, _ = strings.Cut(test, "/")
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		// The name is "path/to/pkg.TestX", or "….TestX.func1" in a closure. The
		// package of an external test ends in "_test".
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
