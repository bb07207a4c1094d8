package fleet

import (
	"iter"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// MachinesWithPrefix returns the machines whose id, MAC address or serial begins with a text, or
// whose label does if the text is key=value. It reads indexes, so its first machines cost the
// same in a fleet of any size. A machine may be returned twice.
func (v *View) MachinesWithPrefix(text string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		see := func(m *holdfastv1.Machine) bool { return yield(Whole(v.s, m)) }
		if key, value, ok := strings.Cut(text, "="); ok {
			v.s.Machines.FacetPrefix(schema.LabelPath+strings.TrimSpace(key), strings.TrimSpace(value))(see)
			return
		}
		for m := range v.s.Machines.Ascend(text, "") {
			if !see(m) {
				return
			}
		}
		owned := []string{"serial " + text}
		if upper := strings.ToUpper(text); upper != text {
			owned = append(owned, "serial "+upper)
		}
		if mac, ok := macPrefix(text); ok {
			owned = append(owned, "MAC address "+mac)
		}
		for _, prefix := range owned {
			for _, m := range v.s.Machines.Scan(schema.MachinesByOwned, prefix, "") {
				if !see(m) {
					return
				}
			}
		}
	}
}

// macPrefix returns the canonical form of the beginning of a MAC address in any notation.
func macPrefix(text string) (string, bool) {
	hex := lex.Hex(text)
	if hex == "" || len(hex) > 12 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	var b strings.Builder
	for i, c := range hex {
		if i > 0 && i%2 == 0 {
			b.WriteByte(':')
		}
		b.WriteRune(c)
	}
	return b.String(), true
}
