package manifest

// TableCount returns the number of tables.
func (v *Version) TableCount() int {
	n := 0
	for _, tables := range v.Levels {
		n += len(tables)
	}
	return n
}
