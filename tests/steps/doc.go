// Package steps tests the engine of a database step by step: the test runs the background
// jobs itself, and stops them in the middle.
package steps
