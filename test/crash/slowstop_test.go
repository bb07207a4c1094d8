package crash

import (
	"testing"

	"github.com/holdfast-metal/holdfast/executor/runs"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestSlowShutdownIsRequestedOnce kills the leader after it has requested a shutdown, which takes
// longer than other effects. The next leader must neither request it again nor cut the power, but
// wait for the remaining time.
func TestSlowShutdownIsRequestedOnce(t *testing.T) {
	long(t)
	t.Parallel()
	const enough = 60 // seconds, of which the hardware needs 5
	c := bench.Cluster(t, harness.Options{FleetConfig: "shutdown_time: 5s\n"})
	for _, k := range []crashCase{
		{"slow-off", "power", &holdfastv1.Power{Action: "off", ShutdownSeconds: enough}, map[string]int{"power_off": 1}, nil},
		{"slow-cycle", "power", &holdfastv1.Power{Action: "cycle", ShutdownSeconds: enough},
			map[string]int{"power_off": 1, "power_on": 1}, nil},
		{"slow-reboot", "reboot", &holdfastv1.Reboot{Mode: "bmc", ShutdownSeconds: enough},
			map[string]int{"power_off": 1, "power_on": 1}, nil},
		{"slow-rma", "rma", &holdfastv1.RmaAction{ShutdownSeconds: enough}, map[string]int{"power_off": 1, "identify": 1},
			nil},
	} {
		k.plan(c)
		ok := t.Run(k.name, func(t *testing.T) {
			c := c.In(t)
			machine := "m-" + k.name
			c.Register(machine)
			point := harness.Failpoint{Boundary: runs.AfterEffect, Kind: k.kind}
			if err := c.Points.Arm(point); err != nil {
				t.Fatal(err)
			}
			id := c.Start(machine, "crash-"+k.name).GetRunId()
			dead, _ := c.Killed()
			if died, err := c.Points.Disarm(point); err != nil || !died {
				t.Fatalf("the leader did not die at %s: %v", point.Boundary, err)
			}
			run := c.Ended(id)
			k.check(t, c, run, 2)
			for _, e := range c.Effects(machine, id) {
				if e.Effect == "power_off" && e.Detail != "soft-off" {
					t.Errorf("got a power cut, want none: %+v", e)
				}
			}
			c.Restart(dead)
		})
		if !ok {
			return
		}
	}
}
