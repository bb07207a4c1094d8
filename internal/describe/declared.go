package describe

import (
	"cmp"

	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Declared returns the value of a declared field of a machine, as all views show it. The provider
// may be a label.
func Declared(m *holdfastv1.Machine, f machinefield.Field) string {
	text := f.Text(m.GetSpec())
	if f.Name() == "provider" {
		return cmp.Or(text, m.GetLabels()["provider"])
	}
	return text
}
