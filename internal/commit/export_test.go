package commit

// InFlight returns how many groups are on their way to the device, or about to be
// built, and how many requests wait for a group.
func (c *Committer) InFlight() (groups, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaders, len(c.queue)
}
