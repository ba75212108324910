// Package reads plays random lives of databases, with restarts and power cuts. It compares
// streams, estimates and splits of ranges, and the numbers of sequences with a model.
package reads
