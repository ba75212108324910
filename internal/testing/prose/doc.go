// Package prose measures the English of the tree. It finds words of the project's old
// dialect in comments and documents. It finds sentences that are too long in documents and
// in the documentation of exported identifiers.
//
// Its test fails on every finding. CONTRIBUTING.md has the rules of style behind this.
package prose
