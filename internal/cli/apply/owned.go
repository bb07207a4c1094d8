package apply

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// checkOwned returns an error if two documents give their machines the same MAC address, BMC or
// serial number, which only one machine can have. The server would refuse whichever came second,
// and a dry run neither.
func checkOwned(docs [][]proto.Message) error {
	owner := map[string]string{}
	for _, all := range docs {
		for _, doc := range all {
			m, ok := doc.(*holdfastv1.Machine)
			if !ok {
				continue
			}
			for _, key := range ownedBy(m) {
				first, taken := owner[key]
				if taken && first != m.GetMachineId() {
					return app.Exitf(app.ExitUsage, "apply: machine %s has the %s of machine %s, which is in these files "+
						"too: only one machine can have it: correct one of the documents", m.GetMachineId(), key, first)
				}
				owner[key] = m.GetMachineId()
			}
		}
	}
	return nil
}

// ownedBy returns the values of a machine that no other machine can have.
func ownedBy(m *holdfastv1.Machine) []string {
	var all []string
	for _, s := range m.GetSpec().GetMacAddresses() {
		if mac, ok := fsm.MAC(s); ok {
			all = append(all, "MAC address "+mac)
		}
	}
	if e := m.GetSpec().GetBmcEndpoint(); e != "" {
		all = append(all, "BMC endpoint "+fsm.BMCKey(e))
	}
	if s := m.GetSpec().GetSerial(); s != "" {
		all = append(all, "serial number "+s)
	}
	return all
}
