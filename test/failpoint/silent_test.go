package failpoint

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/lab"
)

const silentMachine = "m-silent"

// silentConfig polls machines every second. The leader then needs a minute for a reset that it does
// not notice.
const silentConfig = `reconcile_interval_seconds: 1
providers:
  far:
    kind: cloudbmc
    allow_http: true
    protocol: redfish
    auto_reset: true
    request_time: 3s
    open_time: 1s
    settle: 1s
`

// crashSilent makes a BMC hang. The leader resets it with a recovery run and is killed after the
// reset was sent and before the answer. The next leader must continue that run without a second
// reset or run.
func crashSilent(t *testing.T, binary string) {
	board := redfishtest.New(redfishtest.Config{ResetTime: 3 * time.Second})
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	config := filepath.Join(t.TempDir(), "peer.yaml")
	if err := os.WriteFile(config, []byte(silentConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, binary, []string{"--config", config})
	var once sync.Once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		board.Handler().ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/Manager.Reset") {
			once.Do(func() {
				leader, err := l.Leader(ctx)
				if err == nil {
					err = leader.Kill()
				}
				if err != nil {
					t.Errorf("kill the leader: %v", err)
				}
			})
			panic(http.ErrAbortHandler) // the caller is dead
		}
	}))
	t.Cleanup(func() { board.Close(); web.Close() })
	if err := l.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc",
		Values: map[string]string{"username": "admin", "password": "secret"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: silentMachine,
			Spec: &holdfastv1.MachineSpec{Provider: "far", BmcEndpoint: web.URL, BmcCredentialsRef: "bmc"}}}); err != nil {
		t.Fatal(err)
	}
	before := bmcSeen(ctx, t, l)
	board.Set(func(q *redfishtest.Quirks) { q.HangSystems = true })
	var runs []*holdfastv1.Run
	if err := lab.Until(ctx, "a recovery run", func() bool {
		runs = runsOf(ctx, l, silentMachine)
		return len(runs) > 0
	}); err != nil {
		t.Fatal(err)
	}
	run, err := l.Client.WaitRun(ctx, runs[0].GetRunId())
	if err != nil || run.GetPhase() != holdfastv1.Run_SUCCEEDED || run.GetPlanId() != "plan/bmc-reset" ||
		run.GetPrincipal() != "recovery" {
		t.Fatalf("run %s of %s by %q is %s: %v, %v; want plan/bmc-reset by recovery to succeed", run.GetRunId(),
			run.GetPlanId(), run.GetPrincipal(), run.GetPhase(), run.GetError(), err)
	}
	attempts := run.GetSteps()[0].GetAttempts()
	if len(attempts) != 1 || len(attempts[0].GetEpochs()) < 2 {
		t.Errorf("attempts: got %v, want one, of two leaders", attempts)
	}
	if err := l.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	after := bmcSeen(ctx, t, l)
	if was, is := before.GetStatus().GetPhase(), after.GetStatus().GetPhase(); was != is {
		t.Errorf("phase of the machine: got %s before and %s after, want no change", was, is)
	}
	if n, resets := len(runsOf(ctx, l, silentMachine)), board.Effects("bmc_reset"); n != 1 || len(resets) != 1 {
		t.Errorf("got %d runs and resets %v, want one of each", n, resets)
	}
	if n := l.Deaths(); n != 1 {
		t.Errorf("got %d dead peers, want 1", n)
	}
}

// bmcSeen waits until the machine's BMC is reachable, and returns the machine.
func bmcSeen(ctx context.Context, t *testing.T, l *lab.Lab) (m *holdfastv1.Machine) {
	t.Helper()
	if err := lab.Until(ctx, "the BMC to be reachable", func() bool {
		var err error
		if m, err = l.Client.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: silentMachine}); err != nil {
			return false
		}
		for _, c := range m.GetStatus().GetConditions() {
			if c.GetType() == "BMCReachable" {
				return c.GetStatus() && !c.GetUnknown()
			}
		}
		return false
	}); err != nil {
		t.Fatalf("%v; got conditions %v", err, m.GetStatus().GetConditions())
	}
	return m
}

// runsOf returns the runs of a machine.
func runsOf(ctx context.Context, l *lab.Lab, machine string) []*holdfastv1.Run {
	all, err := l.Client.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: "machine_id=" + machine})
	if err != nil {
		return nil
	}
	return all.GetRuns()
}
