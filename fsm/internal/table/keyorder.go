package table

import "fmt"

// keyOrder checks that rows are in ascending key order.
type keyOrder struct {
	any  bool
	last string
}

// next checks the next rows of a table.
func (f *keyOrder) next(table string, rows []incoming) error {
	for _, r := range rows {
		if f.any && r.key <= f.last {
			return fmt.Errorf("snapshot is damaged: record %q of %s comes after %q", r.key, table, f.last)
		}
		f.any, f.last = true, r.key
	}
	return nil
}
