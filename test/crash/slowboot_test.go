package crash

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestKillLeaderWhileHostBoots kills the leader while a machine boots, which takes minutes on real
// hardware. The next leader finds a host that is on and does not answer, and must not reboot it.
func TestKillLeaderWhileHostBoots(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{FleetConfig: "power_time: 300ms\nboot_time: 3s\ninstall_time: 3s\n"})
	booting := func(id string) func(*harness.Cluster, string) (bool, any) {
		return func(c *harness.Cluster, run string) (bool, any) {
			if len(c.Effects("", run)) == 0 {
				return false, "no effect"
			}
			m := c.Hardware(id)
			return m.Power == providers.PowerOn && !m.Reachable, m
		}
	}
	after := func(effect string) func(*harness.Cluster, string) (bool, any) {
		return func(c *harness.Cluster, run string) (bool, any) {
			n := harness.Count(c.Effects("", run), effect)
			return n > 0, n
		}
	}
	for _, k := range []struct {
		name string
		step proto.Message
		when func(c *harness.Cluster, run string) (bool, any) // when the leader is killed
		want map[string]int
	}{
		{"off", &holdfastv1.Reboot{Mode: "bmc"}, after("power_off"), map[string]int{"power_off": 1, "power_on": 1}},
		{"on", &holdfastv1.Reboot{Mode: "bmc"}, after("power_on"), map[string]int{"power_off": 1, "power_on": 1}},
		{"booting", &holdfastv1.Reboot{Mode: "bmc"}, booting("m-booting"), map[string]int{"power_off": 1, "power_on": 1}},
		{"inband", &holdfastv1.Reboot{Mode: "inband"}, booting("m-inband"), map[string]int{"command": 1, "reboot": 1}},
		{"install", &holdfastv1.RepaveImage{Image: "debian-13"}, after("install"), map[string]int{"install": 1}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := c.In(t)
			c.Plan(k.name, step("s", k.step))
			c.Register("m-" + k.name)
			id := c.Start("m-"+k.name, k.name).GetRunId()
			leader := c.TheLeader()
			harness.Until(t, "the moment", func() (bool, any) { return k.when(c, id) })
			if err := leader.Kill(); err != nil {
				t.Fatal(err)
			}
			run := c.Ended(id)
			got := map[string]int{}
			for _, e := range c.CheckRun(run) {
				got[e.Effect]++
			}
			if diff := cmp.Diff(k.want, got); diff != "" || len(run.GetSteps()[0].GetAttempts()) != 1 {
				t.Errorf("effects of %d attempts (-want +got):\n%s\n%s", len(run.GetSteps()[0].GetAttempts()), diff, c.Log(id))
			}
			c.Restart(leader)
		})
	}
}
