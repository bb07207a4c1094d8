package schema

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
)

// lower returns an id in lower case, and whether it has capitals.
func lower(id string) (low string, capitals bool) {
	low = strings.ToLower(id)
	return low, low != id
}

// Respelled reports whether a table has an id that differs from a new one only in the case of
// letters. Firmware, scripts and people write the same id in both: they would be two records of one
// thing. index is that of the table's ids with capitals.
func Respelled[P proto.Message](t *table.Table[P], index int, id string) bool {
	low, capitals := lower(id)
	if capitals && t.Has(low) {
		return true
	}
	_, found := t.Lookup(index, NameKey(low))
	return found && !t.Has(id)
}
