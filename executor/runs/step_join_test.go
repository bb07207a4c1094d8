package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// book is a fake cluster API that records the requests in order.
type book struct {
	mu      sync.Mutex
	node    providers.NodeStatus
	nodeErr error
	joins   map[string]providers.WorkState
	join    providers.WorkState // result of a join that is started
	drains  []providers.DrainStatus
	asked   []string
}

func (b *book) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *book) ask(format string, args ...any) {
	b.asked = append(b.asked, fmt.Sprintf(format, args...))
}

func (b *book) NodeStatus(context.Context, providers.Machine, string) (providers.NodeStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.node, b.nodeErr
}

func (b *book) StartJoin(_ context.Context, op providers.Op, _ providers.Machine, s providers.JoinSpec) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ask("join %s", s.ClusterRef)
	if b.joins == nil {
		b.joins = map[string]providers.WorkState{}
	}
	b.joins[op.Token()] = b.join
	if b.join == providers.WorkDone {
		b.node = providers.NodeStatus{Registered: true, Ready: true, Node: "n-1", Labels: map[string]string{"rack": "r7"}}
	}
	return nil
}

func (b *book) JoinStatus(_ context.Context, _ providers.Machine, token string) (providers.WorkState, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.joins[token]; ok {
		return s, "preflight", nil
	}
	return providers.WorkNone, "", nil
}

func (b *book) EndJoin(_ context.Context, _ providers.Op, _ providers.Machine, s providers.JoinSpec) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ask("end %s", s.ClusterRef)
	return nil
}

func (b *book) Cordon(_ context.Context, _ providers.Op, _ providers.Machine, ref string, on bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ask("cordon %s %t", ref, on)
	return nil
}

func (b *book) Evict(
	_ context.Context, _ providers.Op, _ providers.Machine, ref string, force bool,
) (st providers.DrainStatus, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ask("evict %s %t", ref, force)
	if len(b.drains) > 0 {
		st, b.drains = b.drains[0], b.drains[min(1, len(b.drains)-1):]
	}
	return st, nil
}

func (b *book) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// member is a machine of the fleet whose cluster is a book.
type member struct {
	providers.Inspector
	providers.PowerController
	providers.RemoteExecutor
	*book
}

func (member) Kind() string { return "member" }

func (l *lab) member(b *book) {
	p := fake.New(l.Fleet)
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": member{p, p, p, b}})
}

// once returns a step that is not retried.
func once(s *holdfastv1.Step) *holdfastv1.Step {
	s.MaxRetries = proto.Int32(0)
	return s
}

// whenWaiting calls do once a run waits for a condition.
func (l *lab) whenWaiting(run, name string, do func()) {
	l.T.Helper()
	l.Wait(run, "waiting for "+name, func(r *holdfastv1.Run) bool {
		return strings.Contains(describe.Wait(r.GetWait()), name)
	})
	do()
}

// The token of a join is revoked, whatever the outcome of the attempt.
func TestJoinIsEnded(t *testing.T) {
	ready := providers.NodeStatus{Registered: true, Ready: true}
	worker, master := ready, ready
	worker.Labels = map[string]string{"rack": "r7"}
	master.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	for _, tc := range []struct {
		name          string
		book          *book
		role          string
		want          holdfastv1.Run_Phase
		asked         []string
		tokenEvidence string
	}{
		{"joined", &book{join: providers.WorkDone}, "", holdfastv1.Run_SUCCEEDED, []string{"join c", "end c"}, "revoked"},
		{"failed", &book{join: providers.WorkFailed}, "", holdfastv1.Run_FAILED, []string{"join c", "end c"}, "revoked"},
		{"a node already", &book{node: ready}, "", holdfastv1.Run_SUCCEEDED, nil, ""},
		{"a control plane already", &book{node: master}, "control-plane", holdfastv1.Run_SUCCEEDED, nil, ""},
		{"interrupted join as a control plane", &book{node: worker, join: providers.WorkDone}, "control-plane",
			holdfastv1.Run_SUCCEEDED, []string{"join c", "end c"}, "revoked"},
		{"ambiguous node", &book{node: ready}, "control-plane", holdfastv1.Run_SUCCEEDED, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.member(tc.book)
			l.Machine("m")
			l.Plan("p", once(stepOf("join", &holdfastv1.KubeadmJoin{ClusterRef: "c", Role: tc.role})))
			l.lead(quick())
			r := l.Ended(l.Start("m", "REPAVE", "p", nil).GetRunId())
			if r.GetPhase() != tc.want {
				t.Errorf("run: got %s, want %s: %s", r.GetPhase(), tc.want, r.GetError().GetMessage())
			}
			if diff := cmp.Diff(tc.asked, tc.book.requests()); diff != "" {
				t.Errorf("requests to the cluster (-want +got):\n%s", diff)
			}
			if got := r.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter()["join_token"]; got != tc.tokenEvidence {
				t.Errorf("evidence of the token: got %q, want %q", got, tc.tokenEvidence)
			}
		})
	}
}

// A leader that adopts a join does not start a second one, and ends the first one. It also does so
// for a run that was canceled meanwhile.
func TestJoinIsEndedByNextLeader(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{false, true} {
		t.Run(fmt.Sprint("canceled ", canceled), func(t *testing.T) {
			l, b := newLab(t, fake.Config{}), &book{join: providers.WorkRunning}
			l.member(b)
			l.Machine("m")
			l.Plan("p", once(stepOf("join", &holdfastv1.KubeadmJoin{ClusterRef: "c"})))
			cfg := quick()
			cfg.NoteAfter = 1
			first := l.lead(cfg)
			run := l.Start("m", "REPAVE", "p", nil).GetRunId()
			l.whenWaiting(run, "to be registered", first.Kill)
			<-first.Done
			if diff := cmp.Diff([]string{"join c"}, b.requests()); diff != "" {
				t.Fatalf("requests of the first leader (-want +got):\n%s", diff)
			}
			want := holdfastv1.Run_SUCCEEDED
			if canceled {
				want = holdfastv1.Run_CANCELED
				l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: run}}})
			} else {
				b.with(func() {
					for token := range b.joins {
						b.joins[token] = providers.WorkDone
					}
					b.node = providers.NodeStatus{Registered: true}
				})
			}
			l.lead(cfg)
			if r := l.Ended(run); r.GetPhase() != want {
				t.Errorf("run: got %s, want %s", r.GetPhase(), want)
			}
			if diff := cmp.Diff([]string{"join c", "end c"}, b.requests()); diff != "" {
				t.Errorf("all requests (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that was Ready before the last boot of its host is not a member, because its disk may have
// been written since.
func TestJoinOverOldNode(t *testing.T) {
	l := newLab(t, fake.Config{})
	b := &book{join: providers.WorkDone, node: providers.NodeStatus{Registered: true, Ready: true, BootID: "another boot"}}
	l.member(b)
	l.Machine("m")
	l.Plan("p", once(stepOf("join", &holdfastv1.KubeadmJoin{ClusterRef: "c"})))
	cfg := quick()
	cfg.NoteAfter = 1
	l.lead(cfg)
	run := l.Start("m", "REPAVE", "p", nil).GetRunId()
	l.whenWaiting(run, "known as gone", func() {
		if got := b.requests(); len(got) > 0 {
			t.Errorf("requests while the old node is Ready: got %q, want none", got)
		}
		b.with(func() { b.node.Ready = false })
	})
	l.Ended(run)
	if diff := cmp.Diff([]string{"join c", "end c"}, b.requests()); diff != "" {
		t.Errorf("requests to the cluster (-want +got):\n%s", diff)
	}
}

func TestVerifyReportsWait(t *testing.T) {
	l := newLab(t, fake.Config{})
	b := &book{node: providers.NodeStatus{Registered: true, Node: "n-1",
		Message: "node n-1: Ready is False (KubeletNotReady): no cni"}}
	l.member(b)
	l.Machine("m")
	l.Plan("p", stepOf("verify",
		&holdfastv1.VerifyInCluster{ClusterRef: "c", Labels: map[string]string{"rack": "r7", "zone": "a"},
			Taints: []string{"gpu=yes:NoSchedule"}}))
	cfg := quick()
	cfg.NoteAfter = 1
	l.lead(cfg)
	run := l.Start("m", "REPAVE", "p", nil).GetRunId()
	l.whenWaiting(run, "KubeletNotReady): no cni", func() {
		b.with(func() { b.node.Ready, b.node.Labels = true, map[string]string{"rack": "r7", "zone": "b"} })
	})
	l.whenWaiting(run, "label zone=a, taint gpu=yes:NoSchedule", func() {
		b.with(func() { b.node.Labels["zone"], b.node.Taints = "a", []string{"gpu=yes:NoSchedule"} })
	})
	if r := l.Ended(run); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("run: got %s: %s", r.GetPhase(), r.GetError().GetMessage())
	}
}

// The steps of built-in plans that cordon or drain a node use the API of a registered
// cluster. They are scripts if the cluster is not registered, and in custom plans.
func TestSetAside(t *testing.T) {
	t.Parallel()
	drains := []providers.DrainStatus{{Node: "n-1", Left: 2, Waiting: "pod default/web: the disruption budget keep"},
		{Node: "n-1"}}
	unregistered := &providers.NotAsked{Reason: providers.ClusterNotRegistered, Err: errors.New("not registered")}
	for _, tc := range []struct {
		name  string
		book  *book
		plan  string
		asked []string
		ran   int // scripts that ran on the host
	}{
		{"registered", &book{node: providers.NodeStatus{Registered: true, Ready: true, Node: "n-1"}, drains: drains},
			"plan/upgrade",
			[]string{"cordon c true", "cordon c true", "evict c false", "evict c false", "cordon c false"}, 2},
		{"not registered", &book{nodeErr: unregistered}, "plan/rma", nil, 2},
		// It may be a node of another cluster, so the host is used.
		{"without a node", &book{node: providers.NodeStatus{Reason: "NodeNotFound"}}, "plan/rma", nil, 2},
		{"without a node, forced", &book{node: providers.NodeStatus{Reason: "NodeNotFound"}}, "plan/rma",
			[]string{"evict c true"}, 1},
		{"custom plan", &book{node: providers.NodeStatus{Registered: true, Ready: true}}, "own", nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.member(tc.book)
			l.Machine("m")
			l.Plan("own", stepOf("drain-node", &holdfastv1.SshCommand{Command: "true"}))
			l.lead(quick())
			r := l.Ended(l.Start("m", "UPGRADE", tc.plan, map[string]string{"cluster_ref": "c",
				"force": fmt.Sprint(strings.HasSuffix(tc.name, "forced"))}).GetRunId())
			if r.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Errorf("run: got %s: %s\n%s", r.GetPhase(), r.GetError().GetMessage(), l.Log(r.GetRunId(), "system"))
			}
			if diff := cmp.Diff(tc.asked, tc.book.requests()); diff != "" {
				t.Errorf("requests to the cluster (-want +got):\n%s", diff)
			}
			if got := strings.Count(l.Log(r.GetRunId(), "system"), "run a script") +
				strings.Count(l.Log(r.GetRunId(), "system"), "run true"); got != tc.ran {
				t.Errorf("got %d commands on the host, want %d:\n%s", got, tc.ran, l.Log(r.GetRunId(), "system"))
			}
		})
	}
}
