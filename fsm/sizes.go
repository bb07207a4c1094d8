package fsm

// Sizes returns how many records each table has, by the name of the table.
func (v *View) Sizes() map[string]int {
	sizes := map[string]int{}
	for _, t := range v.tables() {
		sizes[t.name()] = t.len()
	}
	return sizes
}
