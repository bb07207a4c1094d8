package ironic

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// due is the next action of an install.
type due string

const (
	nothing due = ""        // Ironic is busy, or the install has ended
	ask     due = "ask"     // request the change of the provision state
	advance due = "advance" // proceed to the next verb of the record
)

// clockTick is the minimum time in a state before a change that returns to that state is requested.
// Some databases store whole seconds: two changes within one second would look like none.
const clockTick = 2 * time.Second

// judge returns the state of the recorded install and the due action, from the node alone.
func judge(n *node, r *record) (providers.InstallStatus, due) {
	w := r.verb().transition()
	st := providers.InstallStatus{
		State:    providers.WorkRunning,
		Image:    r.Image,
		Progress: 100 * r.At / len(r.Steps),
		Stage:    fmt.Sprintf("%s: the node is %s", r.verb(), clip(n.ProvisionState)),
	}
	failed := func(format string, args ...any) (providers.InstallStatus, due) {
		st.State, st.Error = providers.WorkFailed, fmt.Sprintf(format, args...)
		return st, nothing
	}
	changed := n.ProvisionState != r.From || n.ProvisionUpdatedAt != r.Since
	st.Erases = r.erases(changed || n.Reservation != "")
	switch {
	case changed && n.ProvisionState == w.end:
		st.Progress = 100 * (r.At + 1) / len(r.Steps)
	case changed:
		st.Progress += 50 / len(r.Steps)
	}
	switch {
	case !changed && n.Reservation != "":
		st.Stage = fmt.Sprintf("%s: %s has locked the node", r.verb(), clip(n.Reservation))
		return st, nothing
	case !changed && r.endsWhereItBegan() && n.now.Sub(n.updated()) < clockTick:
		return st, nothing
	case !changed:
		st.Due = fmt.Sprintf("ask Ironic to bring the node from %s to %s (%s)", clip(n.ProvisionState), w.end, r.verb())
		return st, ask
	case slices.Contains(w.on, n.ProvisionState):
		st.Stage += n.CleanStep.String() + n.DeployStep.String()
		return st, nothing
	case n.ProvisionState == w.end && n.Reservation != "": // about to be unlocked
		return st, nothing
	case n.ProvisionState == w.end && r.last():
		st.State, st.Progress, st.Stage = providers.WorkDone, 100, "done"
		return st, nothing
	case n.ProvisionState == w.end:
		st.Due = fmt.Sprintf("record that the node is %s, and continue with %s", w.end, r.Steps[r.At+1])
		return st, advance
	case slices.Contains(w.fail, n.ProvisionState):
		return failed("%s ended in state %q: %s", r.verb(), n.ProvisionState, clip(n.LastError))
	}
	return failed("the node is in state %q, which %s does not lead to: somebody else has changed it",
		clip(n.ProvisionState), r.verb())
}

// updated returns the time of the last change of the provision state, by Ironic's clock, or zero.
func (n *node) updated() time.Time {
	t, err := time.Parse(time.RFC3339, n.ProvisionUpdatedAt)
	if err != nil {
		return time.Time{}
	}
	return t
}

// InstallStatus returns the state of the install, from the node.
func (p *Provider) InstallStatus(
	ctx context.Context, m providers.Machine, token string,
) (st providers.InstallStatus, err error) {
	err = p.call(ctx, m, "read the install", false, func(ctx context.Context, s *session, id string) error {
		n, err := p.read(ctx, s, id)
		if err != nil {
			return err
		}
		r := n.record()
		if r == nil || r.Token != token {
			st = providers.InstallStatus{State: providers.WorkNone}
			return nil
		}
		var do due
		if st, do = judge(n, r); do == ask {
			return n.sick("continue the install of " + m.GetMachineId())
		}
		return nil
	})
	return st, err
}

// StartInstall performs the due action: at first it writes the record on the node, then it requests
// one change after the other. It does nothing while a change is under way, or after the last one.
func (p *Provider) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, spec providers.InstallSpec,
) error {
	what := "install " + m.GetMachineId()
	if spec.Image == "" && !spec.Wipe {
		return providers.Errorf(providers.Unsupported, what, "neither an image nor wipe is given")
	}
	var info map[string]any
	if spec.Image != "" {
		i, err := p.cfg.image(spec.Image)
		if err != nil {
			return providers.Errorf(providers.Unsupported, what, "%w", err)
		}
		disk, err := rootDevice(spec.Disk)
		if err != nil {
			return providers.Errorf(providers.Unsupported, what, "%w", err)
		}
		info = i.instanceInfo(disk)
	}
	return p.call(ctx, m, "continue the install", true, func(ctx context.Context, s *session, id string) error {
		n, err := p.known(ctx, s, id)
		if err != nil {
			return err
		}
		r := n.record()
		if r == nil || r.Token != op.Token() {
			return p.begin(ctx, s, n, &record{Token: op.Token(), Image: spec.Image}, spec, info)
		}
		switch _, do := judge(n, r); do {
		case ask:
			if err := n.sick(what); err != nil {
				return err
			}
			o := p.request(r, n, m, spec)
			return nodes.ChangeProvisionState(ctx, s.ServiceClient, n.UUID, o).ExtractErr()
		case advance:
			r.At++
			return p.write(ctx, s, n, r, info)
		}
		return nil
	})
}

// begin writes the record of a new install.
func (p *Provider) begin(
	ctx context.Context,
	s *session,
	n *node,
	r *record,
	spec providers.InstallSpec,
	info map[string]any,
) error {
	if n.InstanceUUID != "" {
		return providers.Errorf(providers.Unsupported, "install",
			"the node belongs to another user's instance %s (Nova, or an allocation)", clip(n.InstanceUUID))
	}
	if err := n.sick("install"); err != nil && n.ProvisionState != "clean failed" {
		return err
	}
	var err error
	if r.Steps, err = plan(n.ProvisionState, spec); err != nil {
		return err
	}
	return p.write(ctx, s, n, r, info)
}

func (p *Provider) write(ctx context.Context, s *session, n *node, r *record, info map[string]any) error {
	r.From, r.Since = n.ProvisionState, n.ProvisionUpdatedAt
	return nodes.Update(ctx, s.ServiceClient, n.UUID, r.patch(info)).Err
}

// request returns the options of the change of the provision state.
func (p *Provider) request(
	r *record, n *node, m providers.Machine, spec providers.InstallSpec,
) nodes.ProvisionStateOpts {
	o := nodes.ProvisionStateOpts{Target: nodes.TargetProvisionState(r.verb())}
	switch r.verb() {
	case wipe:
		for _, c := range p.cfg.CleanSteps {
			o.CleanSteps = append(o.CleanSteps, nodes.CleanStep{
				Interface: nodes.StepInterface(c.Interface),
				Step:      c.Step,
				Args:      c.Args,
			})
		}
	case deploy, rebuild:
		if spec.CloudInit != "" {
			o.ConfigDrive = nodes.ConfigDrive{
				UserData: spec.CloudInit,
				MetaData: map[string]any{
					"uuid":     n.UUID,
					"name":     m.GetMachineId(),
					"hostname": m.GetMachineId(),
				},
			}
		}
	}
	return o
}
