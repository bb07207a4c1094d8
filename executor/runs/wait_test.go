package runs

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// TestWaitsOfSteps checks the waits that steps report, as data.
func TestWaitsOfSteps(t *testing.T) {
	t.Parallel()
	const long = fake.Duration(time.Minute)
	lies := func(effect string) fake.Config { return fake.Config{Faults: fake.Faults{Lie: []string{effect}}} }
	for _, tt := range []struct {
		name  string
		fleet fake.Config
		kind  proto.Message
		want  *holdfastv1.Wait
	}{
		{"turn", fake.Config{}, &holdfastv1.Power{Action: "cycle", Force: true},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_STAGGER, Subject: "fake"}},
		{"reading", fake.Config{Faults: fake.Faults{Hang: []string{"power_state"}}}, &holdfastv1.Power{Action: "off"},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_READING, Subject: "BMC", Value: "power of m-1"}},
		{"press", fake.Config{PowerTime: long}, &holdfastv1.Power{Action: "off", Force: true},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: "power", Value: "off", Press: "hard-off"}},
		{"light", lies("identify"), &holdfastv1.Identify{},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: "light", Value: "on"}},
		{"time", fake.Config{}, &holdfastv1.Identify{ForSeconds: 60},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_TIMER, Subject: "light"}},
		{"boot", fake.Config{BootTime: long}, &holdfastv1.Reboot{Force: true},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_BOOT, Subject: "host"}},
		{"command", fake.Config{CommandTime: long}, &holdfastv1.SshCommand{Command: "true"},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_COMMAND}},
		{"install", fake.Config{InstallTime: long}, &holdfastv1.RepaveImage{Image: "debian"},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER}},
		{"client", fake.Config{}, &holdfastv1.SerialConsole{},
			&holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "client", Value: "attach"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, tt.fleet)
				s := stepOf("s", tt.kind)
				s.TimeoutSeconds, s.MaxRetries = 600, proto.Int32(0)
				l.Plan("p", s)
				staggered := tt.want.GetKind() == holdfastv1.Wait_STAGGER
				if staggered {
					l.Set = providers.SetOf(map[string]providers.Provider{"fake": fake.New(l.Fleet)},
						providers.WithStagger("fake", providers.Stagger{Interval: time.Minute}))
				}
				l.lead(quick())
				if staggered { // the next machine waits for its turn
					l.Machine("m-0")
					l.Ended(l.Start("m-0", "", "p", nil).GetRunId())
				}
				l.Machine("m-1")
				l.Wait(l.Start("m-1", "", "p", nil).GetRunId(), tt.want.String(),
					func(r *holdfastv1.Run) bool { return fsm.SameWait(r.GetWait(), tt.want) })
			})
		})
	}
}
