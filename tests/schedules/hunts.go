package schedules

// RunSchedule plays one random schedule, for tests outside of the package.
func RunSchedule(seed uint64) error {
	_, err := runSchedule(seed)
	return err
}
