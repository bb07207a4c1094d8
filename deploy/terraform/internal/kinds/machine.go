package kinds

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// machine is the model of holdfast_machine: a machine's spec and labels. Omitted attributes keep
// their value on the server.
type machine struct {
	MachineID         types.String `tfsdk:"machine_id"`
	Labels            types.Map    `tfsdk:"labels"`
	SSHEndpoint       types.String `tfsdk:"ssh_endpoint"`
	BMCEndpoint       types.String `tfsdk:"bmc_endpoint"`
	TargetClusterRef  types.String `tfsdk:"target_cluster_ref"`
	MACAddresses      types.Set    `tfsdk:"mac_addresses"`
	ProviderName      types.String `tfsdk:"provider_name"`
	Location          types.String `tfsdk:"location"`
	Rack              types.String `tfsdk:"rack"`
	Serial            types.String `tfsdk:"serial"`
	AssetTag          types.String `tfsdk:"asset_tag"`
	CustomerID        types.String `tfsdk:"customer_id"`
	Pool              types.String `tfsdk:"pool"`
	BMCCredentialsRef types.String `tfsdk:"bmc_credentials_ref"`
	SSHCredentialsRef types.String `tfsdk:"ssh_credentials_ref"`
	SSHHostKeys       types.Set    `tfsdk:"ssh_host_keys"`
	ForceDelete       types.Bool   `tfsdk:"force_delete"`
}

func machineKind() crud.Kind[machine] {
	return crud.Kind[machine]{
		Name: "machine", Key: "machine_id", Upsert: true,
		Rename: renamed(),
		Schema: schema.Schema{
			Description: "A machine: its endpoints, labels and place. Phase, runs and power are not managed.",
			Attributes:  machineAttributes(),
		},
		ID:    func(m *machine) string { return m.MachineID.ValueString() },
		Empty: emptyMachine,
		Read:  readMachine, Create: createMachine, Update: updateMachine, MayDelete: mayDeleteMachine,
		Delete: func(ctx context.Context, c *client.Client, m *machine) error {
			_, err := c.Machines().DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: m.MachineID.ValueString()})
			return err
		},
		Check: func(m *machine) []crud.Violation {
			if m.MachineID.ValueString() == "" {
				return []crud.Violation{{Field: "machine_id", Text: "is required"}}
			}
			return violations(fsm.NormalizeMachine(m.proto()))
		},
	}
}

// machineAttributes returns the attributes of a machine: one for each declared field.
func machineAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{
		"machine_id": required("Id of the machine. Another id is another machine."),
		"labels":     optionalMap("Labels that are managed here. Other labels of the machine stay."),
		"force_delete": schema.BoolAttribute{Optional: true,
			Description: "Also delete the machine while it is IN_SERVICE"},
	}
	for f := range machinefield.All() {
		text := values.Sentence(f.GetHelp())
		if !f.List() {
			all[f.Attribute()] = optional(text)
			continue
		}
		set := optionalSet(text)
		if f.Name() == "mac_addresses" {
			set.PlanModifiers = []planmodifier.Set{values.SameMACs{}}
		}
		all[f.Attribute()] = set
	}
	return all
}

func emptyMachine(id string) machine {
	return machine{MachineID: types.StringValue(id), Labels: types.MapNull(types.StringType),
		MACAddresses: types.SetNull(types.StringType), SSHHostKeys: types.SetNull(types.StringType)}
}

// renamed returns the attributes that have another name than their field.
func renamed() map[string]string {
	all := map[string]string{}
	for f := range machinefield.All() {
		if f.Attribute() != f.Name() {
			all[f.Name()] = f.Attribute()
		}
	}
	return all
}

// texts returns the attributes of the declared texts, by field.
func (m *machine) texts() map[string]*types.String {
	attributes := values.Attributes[types.String](m)
	all := map[string]*types.String{}
	for f := range machinefield.All() {
		if !f.List() {
			all[f.Name()] = attributes[f.Attribute()]
		}
	}
	return all
}

// proto returns the machine of the API.
func (m *machine) proto() *holdfastv1.Machine {
	spec := &holdfastv1.MachineSpec{MacAddresses: values.Texts(m.MACAddresses), SshHostKeys: values.Texts(m.SSHHostKeys)}
	for field, v := range m.texts() {
		setText(spec, field, v.ValueString())
	}
	return &holdfastv1.Machine{MachineId: m.MachineID.ValueString(), Labels: values.Map(m.Labels), Spec: spec}
}

// fill replaces the attributes with those of the server.
func (m *machine) fill(live *holdfastv1.Machine, all bool) {
	spec := live.GetSpec()
	for field, v := range m.texts() {
		*v = values.Kept(*v, text(spec, field), all)
	}
	m.MACAddresses = values.KeptSet(m.MACAddresses, spec.GetMacAddresses(), all, values.MAC)
	m.SSHHostKeys = values.KeptSet(m.SSHHostKeys, spec.GetSshHostKeys(), all, values.Same)
	m.Labels = values.KeptLabels(m.Labels, live.GetLabels(), all)
}

func readMachine(ctx context.Context, c *client.Client, m *machine, all bool) error {
	live, err := c.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: m.MachineID.ValueString()})
	if err == nil {
		m.fill(live, all)
	}
	return err
}

func createMachine(ctx context.Context, c *client.Client, m, _ *machine) error {
	if err := checkPool(ctx, c, m); err != nil {
		return err
	}
	live, err := c.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m.proto()})
	if err == nil {
		m.fill(live, false)
	}
	return err
}

// updateMachine sends only the fields that differ: other fields and labels may change meanwhile.
func updateMachine(ctx context.Context, c *client.Client, was, m, _ *machine) error {
	mask := &fieldmaskpb.FieldMask{Paths: m.changes(was)}
	if len(mask.GetPaths()) == 0 {
		return nil // force_delete, which the server does not have
	}
	if !m.Pool.Equal(was.Pool) {
		if err := checkPool(ctx, c, m); err != nil {
			return err
		}
	}
	live, err := c.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: m.proto(), UpdateMask: mask})
	if err == nil {
		m.fill(live, false)
	}
	return err
}

// mayDeleteMachine returns an error if the machine is in service.
func mayDeleteMachine(ctx context.Context, c *client.Client, m *machine) error {
	if m.ForceDelete.ValueBool() {
		return nil
	}
	id := m.MachineID.ValueString()
	live, err := c.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	if p := live.GetStatus().GetPhase(); p == holdfastv1.MachineStatus_IN_SERVICE {
		return fmt.Errorf("machine %q is %s: move it to another phase first (holdfast machine set-phase %[1]s "+
			"MAINTENANCE), or apply force_delete = true before you delete it", id, p)
	}
	return nil
}
