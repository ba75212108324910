//go:build !mutants

package mutant

// Enabled reports whether this build can be mutated.
const Enabled = false

// On reports false in this build.
func On(Name) bool { return false }
