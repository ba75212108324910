// Package backup plays random lives of databases, takes a chain of backups of each, and
// restores them. It restores after every backup, from damaged backups, and across power
// cuts.
package backup
