package sources

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// machine is the model of a machine that is read.
type machine struct {
	MachineID    types.String `tfsdk:"machine_id"`
	Labels       types.Map    `tfsdk:"labels"`
	SSHEndpoint  types.String `tfsdk:"ssh_endpoint"`
	BMCEndpoint  types.String `tfsdk:"bmc_endpoint"`
	MACAddresses types.List   `tfsdk:"mac_addresses"`
	ProviderName types.String `tfsdk:"provider_name"`
	Location     types.String `tfsdk:"location"`
	Rack         types.String `tfsdk:"rack"`
	Serial       types.String `tfsdk:"serial"`
	AssetTag     types.String `tfsdk:"asset_tag"`
	Pool         types.String `tfsdk:"pool"`
	Phase        types.String `tfsdk:"phase"`
	State        types.String `tfsdk:"effective_state"`
	NodeState    types.String `tfsdk:"node_state"`
	Power        types.String `tfsdk:"power"`
	ClusterRef   types.String `tfsdk:"cluster_ref"`
	ActiveRunID  types.String `tfsdk:"active_run_id"`
	Hostname     types.String `tfsdk:"hostname"`
	IPAddress    types.String `tfsdk:"ip_address"`
	Attention    types.Bool   `tfsdk:"needs_attention"`
}

// machineAttributes returns the attributes of a machine that is read: those of the declared fields,
// and of its state.
func machineAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{
		"machine_id": computed("Its id"),
		"labels": schema.MapAttribute{Computed: true, ElementType: types.StringType,
			Description: "Its labels"},
		"phase":           computed("READY, IN_SERVICE, …"),
		"effective_state": computed("State for user interfaces"),
		"node_state":      computed("What is on its disk"),
		"power":           computed("ON, OFF or UNKNOWN, as last observed"),
		"cluster_ref":     computed("The cluster that a run has joined it to"),
		"active_run_id":   computed("Its active run; empty: none"),
		"hostname":        computed("As its node reports"),
		"ip_address":      computed("As its installer or its system reports"),
		"needs_attention": schema.BoolAttribute{Computed: true, Description: "It has issues"},
	}
	for f := range machinefield.All() {
		switch text := values.Sentence(f.GetHelp()); {
		case !f.GetObserved():
		case f.List():
			all[f.Attribute()] = schema.ListAttribute{Computed: true, ElementType: types.StringType, Description: text}
		default:
			all[f.Attribute()] = computed(text)
		}
	}
	return all
}

func machineOf(m *holdfastv1.Machine) machine {
	s, text := m.GetStatus(), types.StringValue
	out := machine{
		MachineID: text(m.GetMachineId()), Labels: values.Labels(m.GetLabels()),
		Phase: text(s.GetPhase().String()), State: text(s.GetEffectiveState().String()),
		NodeState: text(s.GetNodeState().String()), Power: text(s.GetPower().String()),
		ClusterRef: text(s.GetClusterRef()), ActiveRunID: text(s.GetActiveRunId()),
		Hostname: text(m.GetNode().GetHostname()), IPAddress: text(m.GetNode().GetIpAddress()),
		Attention: types.BoolValue(s.GetNeedsAttention()),
	}
	texts, lists := values.Attributes[types.String](&out), values.Attributes[types.List](&out)
	for f := range machinefield.All() {
		switch {
		case !f.GetObserved():
		case f.List():
			*lists[f.Attribute()] = values.List(f.Texts(m.GetSpec()))
		default:
			*texts[f.Attribute()] = text(f.Text(m.GetSpec()))
		}
	}
	return out
}

func machineSource() kind[machine] {
	attributes := machineAttributes()
	attributes["machine_id"] = schema.StringAttribute{Required: true, Description: "Its id"}
	return kind[machine]{
		name:   "machine",
		schema: schema.Schema{Description: "A machine with its state.", Attributes: attributes},
		read: func(ctx context.Context, c *client.Client, m *machine) error {
			live, err := c.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: m.MachineID.ValueString()})
			if err == nil {
				*m = machineOf(live)
			}
			return err
		},
	}
}

// machines is the model of holdfast_machines.
type machines struct {
	Filter   types.String `tfsdk:"filter"`
	Labels   types.Map    `tfsdk:"labels"`
	Machines []machine    `tfsdk:"machines"`
}

func machinesSource() kind[machines] {
	return kind[machines]{
		name: "machines",
		schema: schema.Schema{
			Description: "The machines that match a filter and labels, by id.",
			Attributes: map[string]schema.Attribute{
				"filter": schema.StringAttribute{Optional: true,
					Description: "As in `holdfast machine list --filter`, e.g. phase = READY AND rack = \"r7\""},
				"labels": schema.MapAttribute{Optional: true, ElementType: types.StringType,
					Description: "Labels that the machines must have, with their values"},
				"machines": schema.ListNestedAttribute{Computed: true, Description: "The machines",
					NestedObject: schema.NestedAttributeObject{Attributes: machineAttributes()}},
			},
		},
		read: readMachines,
	}
}

func readMachines(ctx context.Context, c *client.Client, m *machines) error {
	m.Machines = []machine{}
	for token := ""; ; {
		page, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{
			Filter: withLabels(m.Filter.ValueString(), values.Map(m.Labels)), PageSize: 1000, PageToken: token})
		if err != nil {
			return err
		}
		for _, live := range page.GetMachines() {
			m.Machines = append(m.Machines, machineOf(live))
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

// withLabels returns a filter that also requires labels.
func withLabels(expression string, labels map[string]string) string {
	var all []string
	if strings.TrimSpace(expression) != "" {
		all = append(all, "("+expression+")")
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, filter.Equals("labels."+filter.Quote(k), labels[k]))
	}
	return strings.Join(all, " AND ")
}
