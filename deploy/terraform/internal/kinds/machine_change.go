package kinds

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// changes returns the paths of the fields and labels that differ, in order. An attribute that the
// configuration no longer has is cleared.
func (m *machine) changes(was *machine) []string {
	var paths []string
	before := was.texts()
	for field, v := range m.texts() {
		if v.ValueString() != before[field].ValueString() {
			paths = append(paths, "spec."+field)
		}
	}
	if !m.MACAddresses.Equal(was.MACAddresses) {
		paths = append(paths, "spec.mac_addresses")
	}
	if !m.SSHHostKeys.Equal(was.SSHHostKeys) {
		paths = append(paths, "spec.ssh_host_keys")
	}
	_, labels := values.MergedLabels(nil, was.Labels, m.Labels)
	for _, k := range labels {
		paths = append(paths, "labels."+k)
	}
	slices.Sort(paths)
	return paths
}

// checkPool returns an error if the machine's pool does not exist, as `holdfast apply` does: a typo
// must not make a machine that nobody finds. The server accepts any name, because managers of pools
// may register after their machines.
func checkPool(ctx context.Context, c *client.Client, m *machine) error {
	pool := m.Pool.ValueString()
	if pool == "" {
		return nil
	}
	_, err := c.Pools().GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: pool})
	if status.Code(err) != codes.NotFound {
		return err
	}
	members, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{
		Filter: filter.Equals("pool", pool), PageSize: 1})
	if err != nil || len(members.GetMachines()) > 0 {
		return err
	}
	return fmt.Errorf("there is no pool %q: create it first, and refer to it (pool = holdfast_pool.NAME.pool_id)", pool)
}

// text returns a field of a spec by its name.
func text(spec *holdfastv1.MachineSpec, field string) string {
	m := spec.ProtoReflect()
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).String()
}

func setText(spec *holdfastv1.MachineSpec, field, value string) {
	m := spec.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOfString(value))
}
