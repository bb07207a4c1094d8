package runs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// unseen is a machine whose BMC reports only the power state, as with IPMI.
type unseen struct {
	*fake.Provider
	why string // the reason
	bmc bool   // the BMC answers
}

func (p *unseen) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	state, err := p.PowerState(ctx, m)
	if state == providers.PowerOff {
		return providers.Facts{ReachableReason: "PoweredOff", BMCReachable: p.bmc, BMCReason: "IPMIOK"}, err
	}
	return providers.Facts{ReachableReason: p.why, ReachableUnknown: true, BMCReachable: p.bmc, BMCReason: "IPMIOK"}, err
}

// A reboot of a machine that cannot be observed ends when its power was off and is on, and reports
// that limit. It does not end if the host is observable but silent, or if the BMC does not answer.
func TestUnobservedReboot(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    unseen
		want holdfastv1.Run_Phase
	}{
		{"IPMI alone", unseen{why: providers.NotProbed, bmc: true}, holdfastv1.Run_SUCCEEDED},
		{"no address", unseen{why: providers.NoSSHEndpoint, bmc: true}, holdfastv1.Run_SUCCEEDED},
		{"no key for the host", unseen{why: "NoSecretsKey", bmc: true}, holdfastv1.Run_FAILED},
		{"silent BMC", unseen{why: providers.NotProbed}, holdfastv1.Run_FAILED},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{PowerTime: fake.Duration(10 * time.Millisecond)})
			tt.p.Provider = fake.New(l.Fleet)
			l.Set = providers.SetOf(map[string]providers.Provider{"fake": &tt.p})
			l.Machine("m-1")
			reboot := stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true})
			if reboot.TimeoutSeconds = 1; tt.want == holdfastv1.Run_SUCCEEDED {
				reboot.TimeoutSeconds = 60
			}
			l.Plan("p", reboot)
			cfg := quick()
			cfg.UnseenBoot = 200 * time.Millisecond
			l.lead(cfg)
			id := l.Start("m-1", "", "p", nil).GetRunId()
			run := l.Ended(id)
			if run.GetPhase() != tt.want {
				t.Fatalf("run: got %s (%v), want %s\n%s", run.GetPhase(), run.GetError(), tt.want, l.Log(id, "system"))
			}
			if run.GetPhase() == holdfastv1.Run_SUCCEEDED {
				if message := run.GetSteps()[0].GetMessage(); !strings.Contains(message,
					"cannot observe whether the host is up ("+tt.p.why+")") {
					t.Errorf("got message %q", message)
				}
				if diff := cmp.Diff(map[string]int{"s/1/power_off": 1}, l.Destructive(id)); diff != "" {
					t.Errorf("destructive effects (-want +got):\n%s", diff)
				}
			}
		})
	}
}
