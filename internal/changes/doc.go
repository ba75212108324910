// Package changes reads the log for the feeds of a database: package feed has their types.
//
// A feed asks the committer up to which version it may deliver, reads the transactions of
// the log up to there, and waits for more. The log tells which transactions it has; see
// commit.History. A feed that meets a gap ends with an error. So a feed is complete, or
// says that it is not.
package changes
