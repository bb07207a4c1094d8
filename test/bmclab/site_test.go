//go:build linux

package bmclab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
	"github.com/holdfast-metal/holdfast/test/lab"
)

// configuration has a provider for machines that are reached through their BMC only, with short
// times.
const configuration = `providers:
  lab:
    kind: cloudbmc
    allow_http: true
    cipher_suite: "3"
    settle: 2s
    open_time: 1s
    request_time: 3s
    command_time: 5s
    timeout: 12s
`

// site is three peers, and a client of them.
type site struct {
	*localcluster.Cluster
	t      *testing.T
	client *client.Client
}

// openSite starts a cluster, with the account of the lab's BMCs as a secret.
func openSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "bmcsite-")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t}
	t.Cleanup(func() {
		if s.Cluster != nil {
			if err := s.Close(); err != nil {
				t.Errorf("stop the cluster: %v", err)
			}
		}
		for _, found := range lab.Trouble(dir) {
			t.Error(found)
		}
		if t.Failed() {
			t.Logf("kept %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	binary, err := bench.Holdfast(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	keys, config := filepath.Join(dir, "secrets.keys"), filepath.Join(dir, "lab.yaml")
	for file, text := range map[string]string{keys: key + "\n", config: configuration} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if s.Cluster, err = localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: dir, RaftMultiplier: 4,
		Args: []string{"--config", config, "--secrets-key-file", keys}}); err != nil {
		t.Fatal(err)
	}
	if s.client, err = client.Dial(client.Config{Addrs: s.Addrs(), TLS: s.TLS(), Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	if _, err := s.client.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmcs", Type: "bmc",
		Values: map[string]string{"username": User, "password": Password}}); err != nil {
		t.Fatal(err)
	}
	for plan, step := range map[string]*holdfastv1.Step{
		"hasty-cycle": {Name: "cycle", TimeoutSeconds: 10, MaxRetries: proto.Int32(1),
			Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "cycle", Force: true}}},
		"hard-reboot": {Name: "reboot", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "bmc", Force: true}}},
	} {
		if _, err := s.client.Plans().CreatePlan(ctx,
			&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: plan, Steps: []*holdfastv1.Step{step}}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// in returns the same site for a subtest.
func (s *site) in(t *testing.T) *site {
	same := *s
	same.t = t
	return &same
}

// register registers a machine with its BMC.
func (s *site) register(id, endpoint string) {
	s.t.Helper()
	m := &holdfastv1.Machine{MachineId: id, Labels: map[string]string{bmc.CipherLabel: "3"},
		Spec: &holdfastv1.MachineSpec{Provider: "lab", BmcEndpoint: endpoint, BmcCredentialsRef: "bmcs"}}
	if _, err := s.client.Machines().RegisterMachine(s.t.Context(),
		&holdfastv1.RegisterMachineRequest{Machine: m}); err != nil {
		s.t.Fatal(err)
	}
}

// start starts a run of a plan.
func (s *site) start(id, plan string, params map[string]string) string {
	s.t.Helper()
	run, err := s.client.Runs().StartRun(s.t.Context(),
		&holdfastv1.StartRunRequest{RequestId: fmt.Sprint(id, plan, time.Now().UnixNano()), MachineId: id, PlanId: plan,
			Params: params})
	if err != nil {
		s.t.Fatal(err)
	}
	return run.GetRunId()
}

// ended blocks until a run has ended, and returns it.
func (s *site) ended(id string) *holdfastv1.Run {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*patience)
	defer cancel()
	run, err := s.client.WaitRun(ctx, id)
	if err != nil {
		s.t.Fatalf("wait for run %s: %v; last state:\n%s\n%s", id, err, prototext.Format(run), s.log(id))
	}
	return run
}

// log returns the log of a run.
func (s *site) log(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var b bytes.Buffer
	if err := s.client.ReadLogs(ctx, id, 0, func(l *holdfastv1.LogChunk) error {
		fmt.Fprintf(&b, "%s %s", l.GetTs().AsTime().Format("05.000"), l.GetData())
		return nil
	}); err != nil {
		s.t.Errorf("read the log of run %s: %v", id, err)
	}
	return b.String()
}

// leader waits for a leader.
func (s *site) leader() *localcluster.Peer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	p, err := s.Leader(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// restart starts a killed peer, and blocks until all are ready.
func (s *site) restart(p *localcluster.Peer) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := p.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	if err := s.WaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// changes returns the changes of the machine's power, in order. They are off and on for a machine
// that was cycled once.
func changes(effects []chassis.Effect) (all []string) {
	for _, e := range effects {
		switch {
		case e.Lost, e.Was:
		case e.What == string(chassis.On):
			all = append(all, "on")
		case e.What == string(chassis.Off), e.What == "down":
			all = append(all, "off")
		case e.What == string(chassis.Reset):
			all = append(all, "reset")
		}
	}
	return all
}

// cycledOnce fails the test unless the machine is on, and was turned off and on exactly once.
func (s *site) cycledOnce(m *Machine, run *holdfastv1.Run) {
	s.t.Helper()
	m.Is("the machine is up", func(st chassis.State) bool { return st.Up })
	if got := changes(m.Done()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || !slices.Equal(got, []string{"off", "on"}) {
		s.t.Errorf("got a run in %s (%v) and power changes %v, want SUCCEEDED and off, on; effects: %+v\n%s",
			run.GetPhase(), run.GetError(), got, m.Done(), s.log(run.GetRunId()))
	}
}
