package kinds

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Node returns the kind of nodes.
func Node() output.Kind[*holdfastv1.Machine] {
	return output.Kind[*holdfastv1.Machine]{
		Noun: "node", List: "nodes",
		Name:   (*holdfastv1.Machine).GetMachineId,
		Header: []string{"NODE", "MAC", "HOSTNAME", "STATE", "SINCE", "WORKFLOW", "ATTEMPTS", "LAST SEEN"},
		Wide:   []string{"IP", "VENDOR", "MODEL", "SERIAL", "GROUP", "TAGS", "ERROR"},
		Row: func(m *holdfastv1.Machine, now time.Time) []any {
			n, mac := m.GetNode(), ""
			if macs := m.GetSpec().GetMacAddresses(); len(macs) > 0 {
				mac = macs[0]
			}
			return []any{
				m.GetMachineId(), mac, n.GetHostname(), nodeStateText(m.GetStatus().GetNodeState()),
				app.Age(now, n.GetStateChangedAt()), n.GetWorkflowId(), n.GetInstallAttempts(),
				app.Age(now, n.GetLastSeenAt()),
				n.GetIpAddress(), n.GetVendor(), n.GetModel(), n.GetSerialNumber(), n.GetGroupId(),
				strings.Join(n.GetTags(), ","), n.GetLastInstallError(),
			}
		},
		Page: Machine().Page,
		Get:  GetNode,
	}
}

func nodeStateText(s holdfastv1.Node_State) render.Text {
	name := strings.ToLower(s.String())
	switch s {
	case holdfastv1.Node_ACTIVE, holdfastv1.Node_INSTALLED:
		return render.T(name, render.Green)
	case holdfastv1.Node_INSTALL_FAILED:
		return render.T(name, render.Red)
	}
	return app.Plain(name)
}

// GetNode returns a node by its machine id or a MAC address.
func GetNode(ctx context.Context, c *client.Client, id string) (*holdfastv1.Machine, error) {
	m, err := c.Nodes().GetNode(ctx, &holdfastv1.GetNodeRequest{Id: id})
	return m, app.Failed(err, "get node %s", id)
}
