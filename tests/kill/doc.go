// Package kill kills processes that use a database, and demands that the next one
// finds what they acknowledged. Its ledger serves the other campaigns whose
// databases outlive what uses them.
package kill
