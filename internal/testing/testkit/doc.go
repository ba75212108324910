// Package testkit holds what the tests of whole databases share. It has a clock that tests
// turn, random writes, the comparison of a database with the model, and small helpers that
// fail a test. It uses the public API only.
package testkit
