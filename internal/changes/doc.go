// Package changes reads the log for the feeds of a database: package feed has their types.
//
// A feed asks a Log up to which version it may deliver, reads the transactions up to there,
// and waits for more. In a writer, the Log is that of package commit, whose History tells
// which transactions the log has. In a follower, it is that of package follow. A feed that
// meets a gap ends with an error. So a feed is complete, or says that it is not.
package changes
