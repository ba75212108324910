// Package dose sets how much of a randomized test runs, and prints how to repeat
// the run. Only tests import it.
//
// One test serves a quick look, a change and a night; only the dose differs. A
// test gets its seed and its sizes here:
//
//	func TestCrash(t *testing.T) {
//		seed := dose.Seed(t)
//		states := dose.Size(t, "states", 200, 4000)
//		dose.Reproduce(t, "crash")
//		…
//	}
//
// The first number is the size under -short, the second the size of a plain `go
// test ./...`. The flag -stoat.states (STATES= of the Makefile) overrides both.
// The seed is SeedDefault unless -stoat.seed gives another; "random" draws one.
//
// If the test fails, one line says how to repeat it with the same seed and
// sizes:
//
//	reproduce: make crash SEED=7 STATES=20000
//
// For a test that named no target of the Makefile, the line is a go test command
// of its package. A panic in another goroutine ends the process before that. So
// dose prints a drawn seed at the beginning.
package dose
