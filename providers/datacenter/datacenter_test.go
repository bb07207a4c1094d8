package datacenter

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// poll is a part of a provider that returns fixed facts.
type poll func() (providers.Facts, error)

type bmcPart struct {
	BMC
	poll
}

func (b bmcPart) Inspect(context.Context, providers.Machine) (providers.Facts, error) {
	return b.poll()
}

type hostPart struct {
	Host
	poll
}

func (h hostPart) Inspect(context.Context, providers.Machine) (providers.Facts, error) {
	return h.poll()
}

func TestInspect(t *testing.T) {
	var (
		up = providers.Facts{Reachable: true, ReachableReason: "SSHOK", BMCReason: "NoBMC", BMCUnknown: true,
			BootID: "b-1", Image: "debian-13"}
		down    = providers.Facts{ReachableReason: "NoRoute", BMCReason: "NoBMC"}
		answers = providers.Facts{ReachableReason: "NotProbed", ReachableUnknown: true, BMCReachable: true,
			BMCReason: "RedfishOK", Power: providers.PowerOff}
		refused = providers.Errorf(providers.Auth, "inspect the BMC", "401")
		running = providers.Facts{Reachable: true, ReachableReason: "OSRunning", BMCReachable: true, BMCReason: "RedfishOK"}
		noKey   = providers.Errorf(providers.Transient, "inspect the host", "%w",
			&providers.NotAsked{Reason: "NoSecretsKey", Err: errors.New("no key")})
		hangs = providers.Errorf(providers.Timeout, "inspect the host", "no answer")
	)
	says := func(f providers.Facts, err error) poll { return func() (providers.Facts, error) { return f, err } }
	never := poll(func() (providers.Facts, error) {
		t.Error("half without an endpoint: got a call")
		return providers.Facts{}, nil
	})
	tests := []struct {
		name      string
		spec      *holdfastv1.MachineSpec
		bmc, host poll
		want      providers.Facts
		failed    bool
	}{
		{"both", &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "h"}, says(answers, nil), says(up, nil),
			providers.Facts{Reachable: true, ReachableReason: "SSHOK", BMCReachable: true, BMCReason: "RedfishOK",
				Power: providers.PowerOff, BootID: "b-1", Image: "debian-13"}, false},
		{"host down", &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "h"}, says(answers, nil), says(down, nil),
			providers.Facts{ReachableReason: "NoRoute", BMCReachable: true, BMCReason: "RedfishOK",
				Power: providers.PowerOff}, false},
		{"login refused by the BMC", &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "h"},
			says(providers.Facts{}, refused), says(up, nil),
			providers.Facts{Reachable: true, ReachableReason: "SSHOK", BMCReason: "AuthFailed",
				BMCMessage: refused.Error(), BootID: "b-1", Image: "debian-13"}, false},
		{"the host hangs", &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "h"}, says(answers, nil),
			says(providers.Facts{}, hangs),
			providers.Facts{ReachableReason: "Timeout", BMCReachable: true, BMCReason: "RedfishOK",
				Power: providers.PowerOff}, false},
		{"neither", &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "h"}, says(providers.Facts{}, refused),
			says(providers.Facts{}, hangs), providers.Facts{}, true},
		{"a BMC alone", &holdfastv1.MachineSpec{BmcEndpoint: "b"}, says(answers, nil), never,
			providers.Facts{ReachableReason: "NoSSHEndpoint", ReachableUnknown: true, BMCReachable: true,
				BMCReason: "RedfishOK", Power: providers.PowerOff}, false},
		{"only a BMC that knows the host", &holdfastv1.MachineSpec{BmcEndpoint: "b"}, says(running, nil), never,
			running, false},
		{"host not probed", &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "h"}, says(answers, nil),
			says(providers.Facts{}, noKey),
			providers.Facts{ReachableReason: "NoSecretsKey", ReachableUnknown: true, BMCReachable: true,
				BMCReason: "RedfishOK", Power: providers.PowerOff}, false},
		{"a BMC alone that fails", &holdfastv1.MachineSpec{BmcEndpoint: "b"}, says(providers.Facts{}, refused), never,
			providers.Facts{}, true},
		{"a host alone", &holdfastv1.MachineSpec{SshEndpoint: "h"}, never, says(up, nil), up, false},
		{"a host alone that fails", &holdfastv1.MachineSpec{SshEndpoint: "h"}, never, says(providers.Facts{}, hangs),
			providers.Facts{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(bmcPart{poll: tt.bmc}, hostPart{poll: tt.host}, nil, nil)
			got, err := p.Inspect(t.Context(), &holdfastv1.Machine{MachineId: "m", Spec: tt.spec})
			var classed *providers.Error
			if (err != nil) != tt.failed || tt.failed && !errors.As(err, &classed) {
				t.Fatalf("got error %v, want one: %v", err, tt.failed)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}
