// Package dose sets how much of a randomized test runs, and tells how to run
// the same again. It is imported by tests only.
//
// One test serves a quick look, a change and a night; what differs is the
// dose. A test asks for its seed and its sizes here:
//
//	func TestCrash(t *testing.T) {
//		seed := dose.Seed(t)
//		states := dose.Size(t, "states", 200, 4000)
//		dose.Reproduce(t, "crash")
//		…
//	}
//
// The first number is the size under -short, the second the size of a plain
// `go test ./...`, and the flag -stoat.states (STATES= of the Makefile)
// overrides both. The seed is SeedDefault unless -stoat.seed gives another;
// "random" draws one.
//
// When the test fails, one line says how to run it again with the same seed
// and sizes:
//
//	reproduce: make crash SEED=7 STATES=20000
//
// or, for a test that named no target of the Makefile, the same as a go test
// command of its package. A panic outside of the test's goroutine ends the process
// before that; a seed that was drawn is printed first, so that it is known then.
package dose
