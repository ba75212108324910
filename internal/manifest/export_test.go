package manifest

// Tables returns the number of tables.
func (v *Version) Tables() int {
	n := 0
	for _, tables := range v.Levels {
		n += len(tables)
	}
	return n
}
