// Package prose measures the English of the tree. It finds words of the project's old
// dialect in comments and documents. It finds sentences that are too long in documents and
// in the documentation of exported identifiers.
//
// Its test compares the counts with recorded ceilings. A count above its
// ceiling fails, and so does a count well below it: the ceiling is then
// lowered, so that the counts only fall. CONTRIBUTING.md has the rules of
// style behind this.
//
// `go test -v ./internal/testing/prose` prints every finding.
package prose
