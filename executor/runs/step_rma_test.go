package runs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// rack is a machine with a BMC and a host, but without an installer, so that the host erases its
// own disks.
type rack struct {
	providers.Inspector
	providers.PowerController
	providers.RemoteExecutor
	providers.Identifier
	says string // the script that the host runs to erase its disks
}

func (rack) Kind() string { return "rack" }

func (r rack) Erase(ctx context.Context, op providers.Op, m providers.Machine, most time.Duration) error {
	return r.StartCommand(ctx, op, m, op.Token(), providers.Command{Script: r.says, Timeout: most})
}

func (l *lab) rack(says string) {
	p := fake.New(l.Fleet)
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": rack{p, p, p, p, says}})
}

func (l *lab) observe(machine string, truths ...string) {
	l.T.Helper()
	seen := &internalv1.MachineConditions{MachineId: machine}
	for _, c := range truths {
		seen.Conditions = append(seen.Conditions, &holdfastv1.Condition{Type: c, Status: true, Reason: "Test",
			ObservedAt: timestamppb.Now()})
	}
	l.Must(&internalv1.Command{Epoch: l.Epoch(),
		Op: &internalv1.Command_ObserveConditions{ObserveConditions: &internalv1.ObserveConditions{
			Machines: []*internalv1.MachineConditions{seen}}}})
}

const erases = "echo holdfast-erase left sdb S3 it is not known to be local\necho holdfast-erase disk sda S1 " +
	"erased blkdiscard\nsleep 0.05\necho holdfast-erase disk nvme0n1 S2 erased nvme format\necho holdfast-erase " +
	"done 2 of 2\n"

func TestRma(t *testing.T) {
	drain := stepOf("drain-node", &holdfastv1.SshCommand{Command: "true"})
	for _, tc := range []struct {
		name    string
		rma     *holdfastv1.RmaAction
		before  *holdfastv1.Step
		says    string
		truths  []string
		params  map[string]string
		err     string // of the run
		presses []string
		want    map[string]string // evidence
	}{
		{"of no cluster", &holdfastv1.RmaAction{Reason: "fan", Ticket: "T-1"}, nil, "", nil, nil, "", []string{"soft-off"},
			map[string]string{"workloads": "not in a cluster", "locator_light": "on", "power": "off", "reason": "fan",
				"ticket": "T-1", "wiped": ""}},
		{"in a cluster", &holdfastv1.RmaAction{}, nil, "", []string{"InCustomerCluster"}, nil,
			"in a cluster and not drained", nil, nil},
		{"by force", &holdfastv1.RmaAction{}, nil, "", []string{"InCustomerCluster"}, map[string]string{"force": "true"},
			"", []string{"soft-off"},
			map[string]string{"workloads": "taken out by force: it is in a cluster and not drained"}},
		{"drained by the run", &holdfastv1.RmaAction{}, drain, "", []string{"InCustomerCluster"}, nil, "",
			[]string{"soft-off"},
			map[string]string{"workloads": "drained by step drain-node"}},
		{"erased from within", &holdfastv1.RmaAction{Wipe: true}, nil, erases, nil, nil, "", []string{"hard-off"},
			map[string]string{"wiped": "by the host (2 of them)", "disk sda": "erased: blkdiscard (serial S1)",
				"disk nvme0n1": "erased: nvme format (serial S2)",
				"disk sdb":     "left: it is not known to be local (serial S3)"}},
		{"disk not erased", &holdfastv1.RmaAction{}, nil,
			"echo holdfast-erase disk sda S1 failed it is frozen\necho holdfast-erase disk sdb S2 erased overwrite\necho " +
				"holdfast-erase done 1 of 2\nexit 1\n",
			nil, map[string]string{"wipe": "true"}, "1 of 2 disks are not erased: sda: it is frozen", nil,
			map[string]string{"disk sda": "NOT erased: it is frozen (serial S1)", "disk sdb": "erased: overwrite (serial S2)"}},
		{"failed disk in a successful report", &holdfastv1.RmaAction{Wipe: true}, nil,
			"echo holdfast-erase disk sda S1 failed it is frozen\necho holdfast-erase done 1 of 1\n", nil, nil,
			"1 of 1 disks are not erased", nil, nil},
		{"incomplete report", &holdfastv1.RmaAction{Wipe: true}, nil,
			"echo holdfast-erase disk sda S1 erased overwrite\n", nil, nil, "did not report that all of its disks are erased",
			nil, nil},
		{"no disk", &holdfastv1.RmaAction{Wipe: true}, nil, "echo holdfast-erase done 0 of 0\n", nil, nil,
			"it reported 0", nil, nil},
		{"the command fails", &holdfastv1.RmaAction{Wipe: true}, nil, "exit 3\n", nil, nil, "exited with 3", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{})
			l.rack(tc.says)
			l.Machine("m-1")
			s := stepOf("s", tc.rma)
			s.MaxRetries = proto.Int32(0)
			steps := []*holdfastv1.Step{s}
			if tc.before != nil {
				steps = []*holdfastv1.Step{tc.before, s}
			}
			l.Plan("p", steps...)
			l.lead(quick())
			l.observe("m-1", tc.truths...)
			run := l.Ended(l.Start("m-1", "RMA", "p", tc.params).GetRunId())
			if msg := run.GetError().GetMessage(); (msg == "") != (tc.err == "") || !strings.Contains(msg, tc.err) {
				t.Errorf("run: got %s: %q, want %q\n%s", run.GetPhase(), msg, tc.err, l.Log(run.GetRunId(), "system"))
			}
			if diff := cmp.Diff(tc.presses, l.presses(run.GetRunId())); diff != "" {
				t.Errorf("presses (-want +got):\n%s", diff)
			}
			got := run.GetSteps()[len(steps)-1].GetAttempts()[0].GetEvidenceAfter()
			for k, v := range tc.want {
				if got[k] != v {
					t.Errorf("evidence %s: got %q, want %q", k, got[k], v)
				}
			}
			m, _ := l.FSM.View().Machine("m-1")
			if is := m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RMA; is != (tc.err == "") {
				t.Errorf("phase of the machine: got %s", m.GetStatus().GetPhase())
			}
		})
	}
}

// The erasure of the disks is recorded before power off, because the host cannot report it later.
// If the leader dies at any boundary, or during the erasure, the next one continues.
func TestRmaIsAdopted(t *testing.T) {
	for _, when := range []string{"in the middle", string(AfterIntent), string(AfterEffect), string(AfterEvidence)} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{})
			l.rack("sleep 0.1\n" + erases)
			l.Machine("m-1")
			s := stepOf("s", &holdfastv1.RmaAction{Wipe: true})
			s.MaxRetries, s.TimeoutSeconds = proto.Int32(0), 60
			l.Plan("p", s)
			cfg := quick()
			var first *tenure
			ready := make(chan struct{})
			cfg.Boundary = func(at Boundary, _ string) {
				if <-ready; string(at) == when {
					first.Kill()
				}
			}
			first = l.lead(cfg)
			close(ready)
			id := l.Start("m-1", "", "p", nil).GetRunId()
			if when == "in the middle" {
				waitFor(t, func() bool { return len(l.Fleet.Effects("", id, 0)) > 0 })
				first.Kill()
			}
			<-first.Done
			if r, _ := l.FSM.View().Run(id); fsm.Ended(r) {
				t.Fatalf("run ended before the leader died: %v", r)
			}
			l.lead(quick())
			run := l.Ended(id)
			effects := map[string]int{}
			for _, e := range l.Fleet.Effects("", id, 0) {
				effects[e.Effect]++
			}
			if diff := cmp.Diff(map[string]int{"command": 1, "power_off": 1, "identify": 1}, effects); diff != "" ||
				run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Errorf("run: got %s: %v; effects (-want +got):\n%s\n%s", run.GetPhase(), run.GetError(), diff,
					l.Log(id, "system"))
			}
			if got := run.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter()["wiped"]; got != "by the host (2 of them)" {
				t.Errorf("got wiped %q", got)
			}
		})
	}
}
