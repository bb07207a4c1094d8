package fsm

// Sizes returns the number of records in each table, by table name.
func (v *View) Sizes() map[string]int {
	sizes := map[string]int{}
	for _, t := range v.tables() {
		sizes[t.name()] = t.len()
	}
	return sizes
}
