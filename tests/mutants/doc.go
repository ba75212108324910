// Package mutants removes guarantees of the engine one at a time, and demands that
// some campaign notices. All but the judgement of a hunt needs the build tag mutants.
package mutants
