// Package schedules runs the work of a database as steps of one thread: writers, readers,
// jobs and crashes, in orders drawn from a seed, and small scenarios in all orders.
package schedules
