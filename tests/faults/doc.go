// Package faults makes every call of the file system fail, once and for good, and
// looks at what the database answers and keeps.
package faults
