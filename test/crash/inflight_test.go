package crash

import (
	"testing"

	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestKillLeaderWithEffectInFlight kills a leader whose call has reached slow hardware, which acts
// a moment later. The next leader must wait for the effect and not repeat the call.
func TestKillLeaderWithEffectInFlight(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{Fleet: []string{"--latency", "400ms"}})
	calls := map[string]string{"ssh": "command", "reboot-bmc": "power_off", "reboot-inband": "command",
		"netboot": "boot_device",
		"repave":  "install", "join": "join", "net": "net_apply", "rma": "power_off", "power-cycle": "power_off"}
	for _, k := range crashCases() {
		call, ok := calls[k.name]
		if !ok {
			continue
		}
		k.plan(c)
		ok = t.Run(k.name, func(t *testing.T) {
			c := c.In(t)
			machine := "m-" + k.name
			c.Register(machine)
			leader := c.TheLeader()
			id := c.Start(machine, "crash-"+k.name).GetRunId()
			harness.Until(t, "the call to be sent", func() (bool, any) {
				m, ok := c.KnownHardware(machine)
				return ok && m.Calls[call] > 0, m.Calls
			})
			early := len(c.Effects(machine, ""))
			if err := leader.Kill(); err != nil {
				t.Fatal(err)
			}
			if early > 0 {
				t.Logf("the effect had happened before the leader died: this run proves little")
			}
			k.check(t, c, c.Ended(id), 2)
			c.Restart(leader)
		})
		if !ok {
			return
		}
	}
}
