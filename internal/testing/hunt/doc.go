// Package hunt removes one guarantee of the engine at a time and demands that a harness
// notices. A harness is a small dose of a campaign. The harnesses are spread over the test
// binaries that can reach them. The package tests/mutants has the harnesses of the public
// API, and the package of the schedules has the others.
//
// All but the judgement of a hunt needs the build tag "mutants".
package hunt
