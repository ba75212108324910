// Package crash cuts the power at the boundaries of what workloads do to a simulated
// disk, and again while the database opens after that.
package crash
