// Package script runs tests that are written as text: a file of commands and the
// expected output of each. It suits rules over sequences, where the cases are
// worth reading and the code around them is not. Only tests import it.
//
// A file in testdata looks like this:
//
//	# A snapshot at 4 still sees a#3, so the deletion is kept for it.
//	retain snapshots=4
//	a#5 SET
//	a#3 DEL
//	a#1 SET
//	----
//	a#5 SET
//	a#3 DEL
//
// A case has a line with a command and its arguments, lines of input, and a line of four
// dashes. The expected output follows, up to the next blank line. Lines that begin with #
// before a command are comments. An output line that is empty, or begins with a period, has
// a period added before it.
//
// The flag -rewrite replaces the expected output in the files by the actual
// output. Review the diff.
package script
