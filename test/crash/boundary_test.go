package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/runs"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// crashCase is a step during which a leader dies, and its expected effects.
type crashCase struct {
	name  string
	kind  string
	step  proto.Message
	want  map[string]int // exact effects
	first proto.Message  // a step that prepares the machine
}

// plan creates the plan of the case.
func (k crashCase) plan(c *harness.Cluster) {
	steps := []*holdfastv1.Step{step("s", k.step)}
	if k.first != nil {
		steps = []*holdfastv1.Step{step("first", k.first), steps[0]}
	}
	c.Plan("crash-"+k.name, steps...)
}

// check compares the effects of an ended run with the record and with the case. It expects one
// attempt with at least this number of leaders.
func (k crashCase) check(t *testing.T, c *harness.Cluster, run *holdfastv1.Run, leaders int) {
	t.Helper()
	got := map[string]int{}
	for _, e := range c.CheckRun(run) {
		got[e.Effect]++
	}
	if diff := cmp.Diff(k.want, got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	last := run.GetSteps()[len(run.GetSteps())-1]
	if n := len(last.GetAttempts()); n != 1 {
		t.Errorf("step %s: got %d attempts, want 1, which the next leader adopts", last.GetName(), n)
	}
	// On a busy machine the leader may change again.
	if got := last.GetAttempts()[0].GetEpochs(); len(got) < leaders {
		t.Errorf("epochs of attempt 1: got %v, want at least %d", got, leaders)
	}
	if k.kind == "ssh" {
		checkOutput(t, c.Log(run.GetRunId(), "stdout"), k.step.(*holdfastv1.SshCommand).GetScript())
	}
	if t.Failed() {
		t.Logf("the log of run %s:\n%s", run.GetRunId(), c.Log(run.GetRunId()))
	}
}

const joined = "prod" // the cluster that machines join

// shutdown is the time for a soft power-off, in seconds. If a leader dies after the intent and
// before the press, the next leader presses after this time.
const shutdown = 4

// crashCases returns all kinds of steps, no kind twice in a row: see TestStopLeaderAtBoundaries.
func crashCases() []crashCase {
	return []crashCase{
		{"ssh", "ssh", &holdfastv1.SshCommand{Script: "seq 20\nsleep 0.6\nseq 20\n"}, map[string]int{"command": 1}, nil},
		{"reboot-bmc", "reboot", &holdfastv1.Reboot{Mode: "bmc", ShutdownSeconds: shutdown},
			map[string]int{"power_off": 1, "power_on": 1}, nil},
		{"netboot", "netboot", &holdfastv1.SetNetboot{Mode: "PXE"}, map[string]int{"boot_device": 1}, nil},
		{"repave", "repave", &holdfastv1.RepaveImage{Image: "debian-13"}, map[string]int{"install": 1}, nil},
		{"join", "join", &holdfastv1.KubeadmJoin{ClusterRef: joined}, map[string]int{"join": 1}, nil},
		{"verify", "verify", &holdfastv1.VerifyInCluster{ClusterRef: joined}, map[string]int{"join": 1},
			&holdfastv1.KubeadmJoin{ClusterRef: joined}},
		{"net", "net", &holdfastv1.NetReconfig{Config: "eth0: dhcp"}, map[string]int{"net_apply": 1, "net_confirm": 1}, nil},
		{"rma", "rma", &holdfastv1.RmaAction{Reason: "fan", ShutdownSeconds: shutdown},
			map[string]int{"power_off": 1, "identify": 1}, nil},
		{"power-cycle", "power", &holdfastv1.Power{Action: "cycle", ShutdownSeconds: shutdown},
			map[string]int{"power_off": 1, "power_on": 1}, nil},
		{"inspect", "inspect", &holdfastv1.Inspect{}, map[string]int{}, nil},
		{"identify", "identify", &holdfastv1.Identify{}, map[string]int{"identify": 1}, nil},
		{"clear-log", "clear_event_log", &holdfastv1.ClearEventLog{}, map[string]int{"clear_log": 1}, nil},
		{"media", "media", &holdfastv1.Media{Url: "http://192.0.2.1/rescue.iso"}, map[string]int{"media_insert": 1}, nil},
		{"inventory", "inventory", &holdfastv1.ReadInventory{}, map[string]int{}, nil},
		{"event-log", "event_log", &holdfastv1.ReadEventLog{}, map[string]int{}, nil},
		{"reboot-inband", "reboot", &holdfastv1.Reboot{Mode: "inband"}, map[string]int{"command": 1, "reboot": 1}, nil},
	}
}

// TestKillLeaderAtEveryBoundary kills the leader between any two durable effects of every kind of
// step. The next leader must complete the run, and no effect may happen twice.
func TestKillLeaderAtEveryBoundary(t *testing.T) {
	t.Parallel()
	all := crashCases()
	half := len(all) / 2
	for i, cases := range [][]crashCase{all[:half], all[half:]} {
		t.Run(fmt.Sprint("cluster", i+1), func(t *testing.T) {
			t.Parallel()
			c := bench.Cluster(t, harness.Options{})
			w := c.Write("m-written")
			crash := &crasher{cluster: c, writer: w}
			c.Plan("bystander-ssh", step("talk", &holdfastv1.SshCommand{Script: bystanderScript}))
			c.Plan("bystander-boot", step("boot", &holdfastv1.SetNetboot{Mode: "HTTP"}),
				step("restart", &holdfastv1.Reboot{Mode: "bmc"}), step("install", &holdfastv1.RepaveImage{Image: "debian-13"}))
			for _, k := range cases {
				k.plan(c)
				for _, b := range runs.Boundaries() {
					if testing.Short() && b != runs.AfterEffect {
						continue
					}
					if !t.Run(k.name+"/"+string(b), func(t *testing.T) { crash.at(t, k, b) }) {
						return // the cluster is unusable for the next case
					}
				}
			}
			slices.Sort(crash.gaps)
			t.Logf("from SIGKILL to the next acknowledged write, %d kills: median %s, longest %s", len(crash.gaps),
				crash.gaps[len(crash.gaps)/2], crash.gaps[len(crash.gaps)-1])
			if _, longest := w.Stop(); longest > 10*time.Second {
				t.Errorf("got %s without an acknowledged write, want at most 10s", longest)
			}
		})
	}
}

const bystanderScript = "seq 100\nsleep 0.8\nseq 100\n"

// crasher kills leaders of one cluster in turn.
type crasher struct {
	cluster *harness.Cluster
	writer  *harness.Writer
	gaps    []time.Duration
}

func (r *crasher) at(t *testing.T, k crashCase, b runs.Boundary) {
	c := r.cluster.In(t)
	machine := "m-" + k.name + "-" + string(b)
	// A run of another kind is in progress when the leader dies.
	bystander := "bystander-ssh"
	if k.kind == "ssh" {
		bystander = "bystander-boot"
	}
	c.Register(machine, machine+"-b")
	point := harness.Failpoint{Boundary: b, Kind: k.kind}
	if err := c.Points.Arm(point); err != nil {
		t.Fatal(err)
	}
	other := c.Start(machine+"-b", bystander)
	id := c.Start(machine, "crash-"+k.name).GetRunId()
	leader, killed := c.Killed()
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	acked, err := r.writer.Next(ctx)
	if err != nil {
		t.Fatalf("write after the leader was killed: %v", err)
	}
	r.gaps = append(r.gaps, acked.Sub(killed))
	if died, err := c.Points.Disarm(point); err != nil || !died {
		t.Fatalf("the leader did not die at %s: %v", b, err)
	}

	k.check(t, c, c.Ended(id), leaders(b))
	other = c.Ended(other.GetRunId())
	c.CheckRun(other)
	if bystander == "bystander-ssh" {
		checkOutput(t, c.Log(other.GetRunId(), "stdout"), bystanderScript)
	}
	c.Restart(leader)
}

// leaders returns the number of leaders of an attempt whose first leader died at a boundary.
func leaders(b runs.Boundary) int {
	if b == runs.BeforeIntent {
		return 1 // nothing of it was recorded
	}
	return 2
}

// checkOutput compares a log with the output of a script of seq and sleep.
func checkOutput(t *testing.T, got, script string) {
	t.Helper()
	if want := output(script); got != want {
		t.Errorf("output: got %d bytes, want %d (-want +got):\n%s", len(got), len(want), cmp.Diff(want, got))
	}
}

func output(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		var n int
		if _, err := fmt.Sscanf(line, "seq %d", &n); err == nil {
			for i := range n {
				fmt.Fprintln(&b, i+1)
			}
		}
	}
	return b.String()
}
