// Package feed plays random lives of databases with a feed of changes that begins again
// after each restart and each power cut. Each commit that the feed delivers is compared
// with what was written, and a replica that is made of the changes with the database.
package feed
