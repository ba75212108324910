// Package hunt removes one guarantee of the engine at a time and demands that a
// harness notices. A harness is a small dose of a campaign. The harnesses are spread
// over the test binaries that can reach them: tests/mutants has those of the public
// API, and the package of the schedules has the others.
//
// Everything here needs the build tag "mutants".
package hunt
