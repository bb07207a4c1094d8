package harness

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Register registers machines.
func (c *Cluster) Register(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		m := &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{TargetClusterRef: "prod"}}
		if _, err := c.Client.Machines().RegisterMachine(
			c.context(), &holdfastv1.RegisterMachineRequest{Machine: m},
		); err != nil {
			c.t.Fatalf("register machine %s: %v", id, err)
		}
	}
}

// Plan creates a plan.
func (c *Cluster) Plan(id string, steps ...*holdfastv1.Step) {
	c.t.Helper()
	_, err := c.Client.Plans().CreatePlan(c.context(),
		&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: id, Steps: steps}})
	if err != nil {
		c.t.Fatalf("create plan %s: %v", id, err)
	}
}

// Start starts a run of a plan, or of a type if it is written in capitals.
func (c *Cluster) Start(machineID, plan string) *holdfastv1.Run {
	c.t.Helper()
	req := &holdfastv1.StartRunRequest{RequestId: "req-" + plan, MachineId: machineID, PlanId: plan}
	if plan == strings.ToUpper(plan) {
		req.Type, req.PlanId = plan, ""
	}
	run, err := c.Client.Runs().StartRun(c.context(), req)
	if err != nil {
		c.t.Fatalf("start %s on %s: %v", plan, machineID, err)
	}
	return run
}

// Ended blocks until a run has ended.
func (c *Cluster) Ended(runID string) *holdfastv1.Run {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.context(), Patience)
	defer stop()
	run, err := c.Client.WaitRun(ctx, runID)
	if err != nil {
		c.t.Fatalf("wait for run %s: %v: last seen:\n%s\nits log:\n%s", runID, err, prototext.Format(run), c.Log(runID))
	}
	return run
}

// Log returns the current log of a run, of all streams or of the given ones.
func (c *Cluster) Log(runID string, streams ...string) string {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	var b bytes.Buffer
	err := c.Client.ReadLogs(ctx, runID, 0, func(l *holdfastv1.LogChunk) error {
		if len(streams) == 0 {
			fmt.Fprintf(&b, "%s %s: %s", l.GetTs().AsTime().Format("05.000"), l.GetStream(), l.GetData())
		}
		for _, s := range streams {
			if s == l.GetStream() {
				b.Write(l.GetData())
			}
		}
		return nil
	})
	if err != nil {
		c.t.Errorf("read the log of run %s: %v", runID, err)
	}
	return b.String()
}

// context returns the test's context, which ends when the cleanup begins.
func (c *Cluster) context() context.Context { return c.t.Context() }
