package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/plans"
	"github.com/holdfast-metal/holdfast/server/internal/startrun"
)

// readOnly is a provider that can only be read. Any change panics.
type readOnly struct {
	able
	bmc   error
	facts providers.Facts
	node  error
}

func (readOnly) BootsInstaller() bool { return true }

func (l readOnly) PowerState(context.Context, providers.Machine) (providers.PowerState, error) {
	return providers.PowerOn, l.bmc
}

func (l readOnly) BootDevice(context.Context, providers.Machine) (providers.BootDevice, error) {
	return providers.BootDevice{Mode: "DISK"}, l.bmc
}

func (l readOnly) Inspect(context.Context, providers.Machine) (providers.Facts, error) {
	return l.facts, nil
}

func (l readOnly) NodeStatus(_ context.Context, _ providers.Machine, ref string) (providers.NodeStatus, error) {
	if l.node != nil {
		return providers.NodeStatus{}, fmt.Errorf("%s: %w", ref, l.node)
	}
	return providers.NodeStatus{Reason: "NodeNotFound"}, nil
}

// Each step is probed for its needs. A step that would fail has the reason, and nothing
// has an effect on hardware.
func TestProbePlan(t *testing.T) {
	plan := &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{
		{Name: "look", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}},
		{Name: "pxe", Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE"}}},
		{Name: "boot", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "bmc"}}},
		{Name: "install", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Disk: "by=smallest"}}},
		{Name: "join", Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{}}},
		{Name: "eject", Kind: &holdfastv1.Step_Media{Media: &holdfastv1.Media{Eject: true}}},
	}}
	sum := func(digit string) string { return strings.Repeat(digit, 64) }
	file := func(digit string) *holdfastv1.Image_File {
		return &holdfastv1.Image_File{Sha256: sum(digit), Url: "http://x/y", SizeBytes: 7}
	}
	well := readOnly{facts: providers.Facts{Reachable: true, ReachableReason: "SSHOK"}}
	for name, tt := range map[string]struct {
		provider readOnly
		image    string
		disk     error
		sure     bool
		want     string // step/what=verdict, those that are not as when all is well
	}{
		"all is well": {provider: well, image: "debian"},
		"the BMC does not answer": {provider: readOnly{facts: well.facts, bmc: errors.New("no route to host")},
			image: "debian", want: "pxe/bmc=FAILS no route to host\nboot/bmc=FAILS no route to host\n"},
		"the account is refused": {provider: readOnly{facts: well.facts,
			bmc: providers.Errorf(providers.Auth, "log in", "wrong password")}, image: "debian",
			want: "pxe/bmc=FAILS it answers, but refuses the account\nboot/bmc=FAILS it answers, but refuses the account\n"},
		"the host is away": {provider: readOnly{facts: providers.Facts{ReachableReason: "NoAnswer"}}, image: "debian",
			want: "look/host=FAILS the host does not answer: NoAnswer\n"},
		"there is no image": {provider: well, image: "none", want: "install/image=FAILS there is no image \"none\"\n"},
		"no peer has its bytes": {provider: well, image: "empty",
			want: "install/image=FAILS no peer has the disk of image \"empty\" yet\n"},
		"a root file system": {provider: well, image: "tar"},
		"no disk qualifies": {provider: well, image: "debian", disk: errors.New("no disk qualifies"), sure: true,
			want: "install/disk=FAILS no disk qualifies\n"},
		"no disk is recorded": {provider: well, image: "debian", disk: errors.New("no disk of this machine"),
			want: "install/disk=UNKNOWN no disk of this machine\n"},
		"the cluster is not up": {provider: readOnly{facts: well.facts, node: errors.New("connection refused")},
			image: "debian", want: "join/cluster=FAILS prod: connection refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodetest.New()
			choose := func(rule string, _ *holdfastv1.HardwareInventory) (string, bool, error) {
				return "vda", tt.sure, tt.disk
			}
			peer := &edge.Peer{Cluster: n, State: n.Peer}
			set := providers.SetOf(map[string]providers.Provider{"fake": tt.provider})
			s := plans.New(peer, plans.Config{
				Providers: set, ChooseDisk: choose, Files: heldFiles{sum("a"): true},
				Starts: startrun.New(peer, startrun.Config{StepTimeout: time.Minute}, set),
			})
			n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{Provider: "fake", TargetClusterRef: "prod",
					MacAddresses: []string{"52:54:00:12:34:56"}}}})
			for _, i := range []*holdfastv1.Image{{Name: "installer", Kernel: file("a"), Initrd: file("a")},
				{Name: "debian", Disk: file("a")}, {Name: "empty", Disk: file("b")},
				{Name: "tar", Disk: file("a"), Format: holdfastv1.Image_TAR}} {
				n.Do(t, &internalv1.PutImage{Image: i})
			}
			before := n.Peer.View().Meta().GetAppliedIndex()
			resp, err := s.ProbePlan(testCtx(t),
				&holdfastv1.ProbePlanRequest{MachineId: "m-1", Plan: plan, Params: map[string]string{"image": tt.image}})
			if err != nil {
				t.Fatal(err)
			}
			got, all := "", []string{}
			for _, p := range resp.GetProbes() {
				key := p.GetStep() + "/" + p.GetWhat()
				all = append(all, key)
				as := holdfastv1.Probe_OK
				if key == "join/host" { // what the install has made of it
					as = holdfastv1.Probe_UNKNOWN
				}
				if key == "eject/provider" { // it has no virtual drive
					as = holdfastv1.Probe_FAILS
				}
				if p.GetVerdict() != as {
					got += fmt.Sprintf("%s=%s %s\n", key, p.GetVerdict(), p.GetMessage())
				}
			}
			if diff := cmp.Diff([]string{"/machine", "look/host", "pxe/bmc", "boot/bmc", "install/image", "install/installer",
				"install/disk", "join/host", "join/cluster", "eject/provider"}, all); diff != "" {
				t.Errorf("probes (-want +got):\n%s", diff)
			}
			for _, line := range strings.SplitAfter(tt.want, "\n") {
				if !strings.Contains(got, strings.TrimSuffix(line, "\n")) {
					t.Errorf("got\n%s\nwant %q in it", got, line)
				}
			}
			if strings.Count(got, "=") < strings.Count(tt.want, "=") || tt.want == "" && got != "" ||
				strings.Count(got, "\n") != strings.Count(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if after := n.Peer.View().Meta().GetAppliedIndex(); after != before {
				t.Errorf("it has changed the state: %d, was %d", after, before)
			}
		})
	}
}

func TestProbePlanRefuses(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "m-1")
	for _, tt := range []struct {
		r      *holdfastv1.ProbePlanRequest
		code   codes.Code
		reason string
	}{
		{&holdfastv1.ProbePlanRequest{PlanId: "plan/reboot"}, codes.InvalidArgument, "INVALID_FIELD"},
		{&holdfastv1.ProbePlanRequest{MachineId: "m-9", PlanId: "plan/reboot"}, codes.NotFound, "MACHINE_NOT_FOUND"},
		{&holdfastv1.ProbePlanRequest{MachineId: "m-1", PlanId: "none"}, codes.NotFound, "PLAN_NOT_FOUND"},
		{&holdfastv1.ProbePlanRequest{MachineId: "m-1", Plan: &holdfastv1.Plan{PlanId: "p"}}, codes.InvalidArgument,
			"INVALID_FIELD"},
		{&holdfastv1.ProbePlanRequest{MachineId: "m-1", PlanId: "plan/reboot", Plan: nodetest.OnePlan("p")},
			codes.InvalidArgument, "INVALID_FIELD"},
	} {
		_, err := c.ProbePlan(testCtx(t), tt.r)
		wantError(t, err, tt.code, tt.reason)
	}
}

// A plan of a file is tried as it would start: it is stored first, and then started, and neither
// stays.
func TestProbeTriesTheStart(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	peer, set := &edge.Peer{Cluster: n, State: n.Peer}, providers.SetOf(map[string]providers.Provider{"fake": readOnly{
		facts: providers.Facts{Reachable: true, ReachableReason: "SSHOK"}}})
	c := plans.New(peer, plans.Config{Providers: set, Starts: startrun.New(peer, startrun.Config{StepTimeout: time.Minute},
		set)})
	run := n.Start(t, "m-1", "run-1", "")
	n.Finish(t, "run-1", holdfastv1.Attempt_SUCCEEDED)
	for _, tt := range []struct {
		name string
		plan *holdfastv1.Plan
		want string // the message of the refused start
	}{
		{"another plan", nodetest.OnePlan("plan/new"), ""},
		{"a plan that a run uses, changed", &holdfastv1.Plan{PlanId: run.GetPlanId(), Steps: []*holdfastv1.Step{{
			Name: "other", TimeoutSeconds: 7, Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "true"}}}}},
			"a run refers to it"},
	} {
		before := n.Peer.View().Meta().GetAppliedIndex()
		resp, err := c.ProbePlan(testCtx(t), &holdfastv1.ProbePlanRequest{MachineId: "m-1", Plan: tt.plan})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range resp.GetProbes() {
			if p.GetWhat() == "start" {
				got = p.GetMessage()
			}
		}
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got the refusal %q, want %q", tt.name, got, tt.want)
		}
		if now := n.Peer.View().Meta().GetAppliedIndex(); now != before {
			t.Errorf("%s: the probe has changed the state", tt.name)
		}
	}
}
