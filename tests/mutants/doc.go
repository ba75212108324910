// Package mutants removes guarantees of the engine one at a time, and demands that
// some campaign notices. It needs the build tag mutants.
package mutants
