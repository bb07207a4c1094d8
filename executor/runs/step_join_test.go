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

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// book is a cluster as seen through its API, with the requests to it in order.
type book struct {
	mu     sync.Mutex
	node   providers.NodeStatus
	look   error
	joins  map[string]providers.WorkState
	join   providers.WorkState // what a join that is started comes to
	drains []providers.DrainStatus
	asked  []string
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
	return b.node, b.look
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

func (b *book) said() []string {
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

// whenWaiting calls do once a run waits for something.
func (l *lab) whenWaiting(run, what string, do func()) {
	l.T.Helper()
	l.Wait(run, "waiting for "+what, func(r *holdfastv1.Run) bool { return strings.Contains(r.GetWaitingFor(), what) })
	do()
}

// The token of a join is revoked, whatever the outcome of the attempt.
func TestJoinIsEnded(t *testing.T) {
	ready := providers.NodeStatus{Registered: true, Ready: true}
	worker, master := ready, ready
	worker.Labels = map[string]string{"rack": "r7"}
	master.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	for _, tc := range []struct {
		name  string
		book  *book
		role  string
		want  holdfastv1.Run_Phase
		asked []string
		proof string
	}{
		{"joined", &book{join: providers.WorkDone}, "", holdfastv1.Run_SUCCEEDED, []string{"join c", "end c"}, "revoked"},
		{"failed", &book{join: providers.WorkFailed}, "", holdfastv1.Run_FAILED, []string{"join c", "end c"}, "revoked"},
		{"a node already", &book{node: ready}, "", holdfastv1.Run_SUCCEEDED, nil, ""},
		{"a control plane already", &book{node: master}, "control-plane", holdfastv1.Run_SUCCEEDED, nil, ""},
		{"a node whose join as a control plane broke off", &book{node: worker, join: providers.WorkDone}, "control-plane",
			holdfastv1.Run_SUCCEEDED, []string{"join c", "end c"}, "revoked"},
		{"a node that nobody can tell", &book{node: ready}, "control-plane", holdfastv1.Run_SUCCEEDED, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.member(tc.book)
			l.Machine("m")
			l.Plan("p", once(stepOf("join", &holdfastv1.KubeadmJoin{ClusterRef: "c", Role: tc.role})))
			l.lead(quick())
			r := l.Ended(l.Start("m", "REPAVE", "p", nil).GetRunId())
			if r.GetPhase() != tc.want {
				t.Errorf("the run is %s, want %s: %s", r.GetPhase(), tc.want, r.GetError().GetMessage())
			}
			if diff := cmp.Diff(tc.asked, tc.book.said()); diff != "" {
				t.Errorf("asked of the cluster (-want +got):\n%s", diff)
			}
			if got := r.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter()["join_token"]; got != tc.proof {
				t.Errorf("evidence of the token: %q, want %q", got, tc.proof)
			}
		})
	}
}

// A leader that dies leaves the join to the next one, which does not start a second join,
// and ends the first one. So it does for a run that was canceled meanwhile.
func TestJoinIsEndedByTheNextLeader(t *testing.T) {
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
			l.whenWaiting(run, "the node to register", first.Kill)
			<-first.Done
			if diff := cmp.Diff([]string{"join c"}, b.said()); diff != "" {
				t.Fatalf("asked by the first leader (-want +got):\n%s", diff)
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
				t.Errorf("the run is %s, want %s", r.GetPhase(), want)
			}
			if diff := cmp.Diff([]string{"join c", "end c"}, b.said()); diff != "" {
				t.Errorf("asked in all (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that is shown as Ready from before the last boot of its host is not a member:
// its disk may have been written since.
func TestJoinOverANodeOfBefore(t *testing.T) {
	l := newLab(t, fake.Config{})
	b := &book{join: providers.WorkDone, node: providers.NodeStatus{Registered: true, Ready: true, BootID: "another boot"}}
	l.member(b)
	l.Machine("m")
	l.Plan("p", once(stepOf("join", &holdfastv1.KubeadmJoin{ClusterRef: "c"})))
	cfg := quick()
	cfg.NoteAfter = 1
	l.lead(cfg)
	run := l.Start("m", "REPAVE", "p", nil).GetRunId()
	l.whenWaiting(run, "the cluster to notice", func() {
		if got := b.said(); len(got) > 0 {
			t.Errorf("asked while the old node is Ready: %q", got)
		}
		b.with(func() { b.node.Ready = false })
	})
	l.Ended(run)
	if diff := cmp.Diff([]string{"join c", "end c"}, b.said()); diff != "" {
		t.Errorf("asked of the cluster (-want +got):\n%s", diff)
	}
}

func TestVerifySaysWhatItWaitsFor(t *testing.T) {
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
		t.Errorf("the run is %s: %s", r.GetPhase(), r.GetError().GetMessage())
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
		{"not registered", &book{look: unregistered}, "plan/rma", nil, 2},
		// it may be a node of another cluster: the host is asked
		{"without a node", &book{node: providers.NodeStatus{Reason: "NodeNotFound"}}, "plan/rma", nil, 2},
		{"without a node, as somebody knows", &book{node: providers.NodeStatus{Reason: "NodeNotFound"}}, "plan/rma",
			[]string{"evict c true"}, 1},
		{"in a plan of one's own", &book{node: providers.NodeStatus{Registered: true, Ready: true}}, "own", nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.member(tc.book)
			l.Machine("m")
			l.Plan("own", stepOf("drain-node", &holdfastv1.SshCommand{Command: "true"}))
			l.lead(quick())
			r := l.Ended(l.Start("m", "UPGRADE", tc.plan, map[string]string{"cluster_ref": "c",
				"force": fmt.Sprint(strings.HasSuffix(tc.name, "somebody knows"))}).GetRunId())
			if r.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Errorf("the run is %s: %s\n%s", r.GetPhase(), r.GetError().GetMessage(), l.Log(r.GetRunId(), "system"))
			}
			if diff := cmp.Diff(tc.asked, tc.book.said()); diff != "" {
				t.Errorf("asked of the cluster (-want +got):\n%s", diff)
			}
			if got := strings.Count(l.Log(r.GetRunId(), "system"), "run a script") +
				strings.Count(l.Log(r.GetRunId(), "system"), "run true"); got != tc.ran {
				t.Errorf("%d commands ran on the host, want %d:\n%s", got, tc.ran, l.Log(r.GetRunId(), "system"))
			}
		})
	}
}
