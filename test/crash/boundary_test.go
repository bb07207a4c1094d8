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

// crashCase is a step that a leader dies in, and what the hardware must have seen in the end.
type crashCase struct {
	name  string
	kind  string
	step  proto.Message
	want  map[string]int // effects, exactly
	first proto.Message  // a step before it, which brings the machine to where it has to be
}

// plan makes the plan of the case.
func (k crashCase) plan(c *harness.Cluster) {
	steps := []*holdfastv1.Step{step("s", k.step)}
	if k.first != nil {
		steps = []*holdfastv1.Step{step("first", k.first), steps[0]}
	}
	c.Plan("crash-"+k.name, steps...)
}

// check compares what the hardware has seen of a run that has ended with the record, and with what
// the step is for. It expects one attempt, of at least so many leaders.
func (k crashCase) check(t *testing.T, c *harness.Cluster, run *holdfastv1.Run, leaders int) {
	t.Helper()
	got := map[string]int{}
	for _, e := range c.Verdict(run) {
		got[e.Effect]++
	}
	if diff := cmp.Diff(k.want, got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	last := run.GetSteps()[len(run.GetSteps())-1]
	if n := len(last.GetAttempts()); n != 1 {
		t.Errorf("step %s took %d attempts: the open one is to be taken over", last.GetName(), n)
	}
	// On a busy machine the leader may change once more.
	if got := last.GetAttempts()[0].GetEpochs(); len(got) < leaders {
		t.Errorf("attempt 1 is of epochs %v, want %d of them", got, leaders)
	}
	if k.kind == "ssh" {
		checkOutput(t, c.Log(run.GetRunId(), "stdout"), k.step.(*holdfastv1.SshCommand).GetScript())
	}
	if t.Failed() {
		t.Logf("the log of run %s:\n%s", run.GetRunId(), c.Log(run.GetRunId()))
	}
}

const joined = "prod" // the cluster that machines join

// shutdown is how many seconds an operating system has. If a leader dies between the record of a
// soft off and the button, it is asked after that.
const shutdown = 4

// crashCases are all kinds of steps. Two of one kind do not follow each other: see
// TestStopLeaderAtBoundaries.
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

// A leader that is killed between any two durable effects of any step leaves a run that the next
// leader brings to its end, and nothing is done to the machine twice.
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
						return // its cluster is not what the next case needs
					}
				}
			}
			slices.Sort(crash.gaps)
			t.Logf("from SIGKILL to the next acknowledged write, %d kills: median %s, longest %s", len(crash.gaps),
				crash.gaps[len(crash.gaps)/2], crash.gaps[len(crash.gaps)-1])
			if _, longest := w.Stop(); longest > 10*time.Second {
				t.Errorf("no write was acknowledged for %s: losing a peer must not be seen for longer than 10 s", longest)
			}
		})
	}
}

const bystanderScript = "seq 100\nsleep 0.8\nseq 100\n"

// crasher kills leaders of one cluster, one after the other.
type crasher struct {
	cluster *harness.Cluster
	writer  *harness.Writer
	gaps    []time.Duration
}

func (r *crasher) at(t *testing.T, k crashCase, b runs.Boundary) {
	c := r.cluster.In(t)
	machine := "m-" + k.name + "-" + string(b)
	// A run of steps of other kinds is in the middle of something when the leader dies.
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
		t.Fatalf("no write after the leader was killed: %v", err)
	}
	r.gaps = append(r.gaps, acked.Sub(killed))
	if died, err := c.Points.Disarm(point); err != nil || !died {
		t.Fatalf("the leader has died, but not at %s: %v", b, err)
	}

	k.check(t, c, c.Ended(id), leaders(b))
	other = c.Ended(other.GetRunId())
	c.Verdict(other)
	if bystander == "bystander-ssh" {
		checkOutput(t, c.Log(other.GetRunId(), "stdout"), bystanderScript)
	}
	c.Restart(leader)
}

// leaders is how many leaders an attempt has had when the first one died at a boundary.
func leaders(b runs.Boundary) int {
	if b == runs.BeforeIntent {
		return 1 // nothing of it was recorded
	}
	return 2
}

// checkOutput compares a log with what a script of seq and sleep prints.
func checkOutput(t *testing.T, got, script string) {
	t.Helper()
	if want := output(script); got != want {
		t.Errorf("output has %d bytes, want %d, each once and in order:\n%s", len(got), len(want), cmp.Diff(want, got))
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
