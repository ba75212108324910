// Package schedules runs the work of a database as steps of one thread. Writers, readers,
// jobs and crashes take the steps. A seed draws their order, and small scenarios run in all
// orders.
package schedules
