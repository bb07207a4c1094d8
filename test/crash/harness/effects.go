package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// Effects returns the fake hardware's effects, in order. An empty id matches any.
func (c *Cluster) Effects(machineID, runID string) []fake.Effect {
	c.t.Helper()
	var all []fake.Effect
	c.ask("/effects?"+url.Values{"machine_id": {machineID}, "run_id": {runID}}.Encode(), &all)
	return all
}

// Hardware returns the state of a fake machine.
func (c *Cluster) Hardware(machineID string) fake.MachineState {
	c.t.Helper()
	m, ok := c.KnownHardware(machineID)
	if !ok {
		c.t.Fatalf("machine %s is unknown to the fake hardware", machineID)
	}
	return m
}

// KnownHardware returns the state of a fake machine, if it was ever used.
func (c *Cluster) KnownHardware(machineID string) (fake.MachineState, bool) {
	c.t.Helper()
	var all []fake.MachineState
	c.ask("/machines", &all)
	for _, m := range all {
		if m.MachineID == machineID {
			return m, true
		}
	}
	return fake.MachineState{}, false
}

func (c *Cluster) ask(path string, answer any) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Fake.Endpoint+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("ask the fake hardware: %v (%s)", err, c.Fake.State())
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		c.t.Fatalf("ask the fake hardware for %s: %s", path, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		c.t.Fatalf("read the fake hardware's response: %v", err)
	}
}

// CheckRun fails the test if an ended run does not match its machine's effects, or did not
// succeed. It returns the effects.
func (c *Cluster) CheckRun(run *holdfastv1.Run) []fake.Effect {
	c.t.Helper()
	effects := c.Effects("", run.GetRunId())
	found := Judge(run, effects)
	found = append(found, JudgeMachine(c.Hardware(run.GetMachineId()), c.Effects(run.GetMachineId(), ""))...)
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		found = append(found,
			fmt.Sprintf("run %s of %s is %s: %v", run.GetRunId(), run.GetMachineId(), run.GetPhase(), run.GetError()))
	}
	for _, f := range found {
		c.t.Error(f)
	}
	if len(found) > 0 {
		c.t.Logf("the log of run %s:\n%s", run.GetRunId(), c.Log(run.GetRunId()))
	}
	return effects
}
