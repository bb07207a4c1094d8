package health

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func status(leader string, tolerance int32, change ...func(*holdfastv1.ClusterStatus)) *holdfastv1.ClusterStatus {
	st := &holdfastv1.ClusterStatus{Leader: leader, FailureTolerance: tolerance, AnsweredBy: "n1",
		LastBackupAt: ago(time.Hour)}
	for i := range 3 {
		st.Peers = append(st.Peers, &holdfastv1.Peer{Id: fmt.Sprintf("n%d", i+1),
			Suffrage: "voter", Alive: true, Version: "1.2"})
	}
	for _, f := range change {
		f(st)
	}
	return st
}

var now = time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

func TestPeers(t *testing.T) {
	down := func(st *holdfastv1.ClusterStatus) { st.Peers[2].Alive, st.Peers[2].Error = false, "connection refused" }
	for _, tt := range []struct {
		st                     *holdfastv1.ClusterStatus
		want, tolerance, state string
	}{
		{status("n1", 1), "3 of 3", "peers alive, 1 may fail", "in_service"},
		{status("n1", 0, down), "2 of 3", "peers alive, 0 may fail", "maintenance"},
		{status("", 0, down), "2 of 3", "peers alive, no leader", "bad"},
		{&holdfastv1.ClusterStatus{Leader: "n1", AnsweredBy: "n1", Peers: []*holdfastv1.Peer{{Id: "n1", Suffrage: "voter"},
			{Id: "n9", Suffrage: "none"}}}, "1 of 1", "peer alive", "in_service"},
	} {
		p := PeersOf(tt.st)
		if p.String() != tt.want || p.Tolerance() != tt.tolerance || p.State() != tt.state {
			t.Errorf("got %s %s, %s, want %s %s, %s", p, p.Tolerance(), p.State(), tt.want, tt.tolerance, tt.state)
		}
	}
}

func TestNoLeader(t *testing.T) {
	st := status("", 0)
	st.Problem = "no leader: n2 and n3 do not answer, 2 of 3 voters are needed"
	if got, want := NoLeader(st), "No leader: n2 and n3 do not answer, 2 of 3 voters are needed. "+
		"This page shows the state of n1. Changes wait until there is a leader."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	unsaid := status("", 0) // the peer has not found the reason yet
	unsaid.Peers[1].Alive, unsaid.Peers[2].Alive = false, false
	if got, want := NoLeader(unsaid), "No leader: n2 and n3 do not answer. "+
		"This page shows the state of n1. Changes wait until there is a leader."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// firing returns the alerts that fire, with their details.
func firing(f Facts) map[string][]string {
	all := map[string][]string{}
	for _, a := range Alerts(f) {
		if len(a.Firing) > 0 {
			all[a.Name] = a.Firing
		}
	}
	return all
}

// TestAlerts checks that a healthy cluster has no alerts, and that each alert fires.
func TestAlerts(t *testing.T) {
	healthy := Facts{Now: now, Status: status("n1", 1), Recent: []*holdfastv1.Run{{CreatedAt: ago(0)}}}
	if diff := cmp.Diff(map[string][]string{}, firing(healthy)); diff != "" {
		t.Errorf("a healthy cluster (-want +got):\n%s", diff)
	}
	failed := func(n int, age time.Duration) (all []*holdfastv1.Run) {
		for range n {
			all = append(all, &holdfastv1.Run{Phase: holdfastv1.Run_FAILED, CreatedAt: ago(age), FinishedAt: ago(age)})
		}
		return all
	}
	want := map[string]struct {
		facts Facts
		want  []string
	}{
		"HoldfastNoLeader": {Facts{Status: status("", 1, func(st *holdfastv1.ClusterStatus) {
			st.Problem = "no leader: n2 does not answer"
		})}, []string{"n2 does not answer"}},
		"HoldfastNoneMayFail": {Facts{Status: status("n1", 0)}, []string{"peers alive: 3 of 3. Do not stop another one"}},
		"HoldfastDiskAlmostFull": {Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
			st.Peers[1].Warning = "2 GiB are free"
		})}, []string{"n2: 2 GiB are free"}},
		"HoldfastPeerDown": {Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
			st.Peers[1].Error, st.Peers[2].Alive = "connection refused", false
		})}, []string{"n2: connection refused", "n3: does not answer"}},
		"HoldfastPeerLags": {Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
			st.Peers[1].Behind, st.Peers[2].Behind = 5000, 5001
		})}, []string{"n3: 5001 entries behind"}},
		"HoldfastVersionsMixed": {Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
			st.Peers[1].Version = "1.3"
		})}, []string{"1.2: n1, n3", "1.3: n2"}},
		"HoldfastBackupOld": {Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
			st.LastBackupAt = ago(37 * time.Hour)
		})}, []string{"the newest one is 37 hours old"}},
		"HoldfastBackupMissing": {Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
			st.LastBackupAt = nil
		})},
			[]string{"no snapshot of this cluster was saved"}},
		"HoldfastPlanHeld": {Facts{Plans: []*holdfastv1.Plan{{PlanId: "plan/x", Brake: &holdfastv1.PlanBrake{
			Failure: "install", Machines: 3}}, {PlanId: "plan/y"}}}, []string{"plan/x: install on 3 machines"}},
		"HoldfastRunsOverdue": {Facts{Active: []*holdfastv1.Run{
			{RunId: "r1", MachineId: "m1", Phase: holdfastv1.Run_PENDING, CreatedAt: ago(11 * time.Minute)},
			{RunId: "r2", MachineId: "m2", Phase: holdfastv1.Run_RUNNING, StartedAt: ago(3 * time.Minute),
				Steps: []*holdfastv1.StepStatus{{TimeoutSeconds: 60}, {TimeoutSeconds: 60}}},
			{Phase: holdfastv1.Run_RUNNING, StartedAt: ago(time.Hour),
				Steps: []*holdfastv1.StepStatus{{TimeoutSeconds: 7200}}},
			{Phase: holdfastv1.Run_RUNNING, StartedAt: ago(time.Hour), Concurrent: true,
				Steps: []*holdfastv1.StepStatus{{TimeoutSeconds: 60}}},
		}}, []string{"r1 on m1, for 11m0s", "r2 on m2, for 3m0s"}},
		"HoldfastRunsFail": {Facts{Recent: append(failed(5, time.Minute), failed(9, time.Hour)...)},
			[]string{"5 of 5 runs failed"}},
		"HoldfastWebhookFails": {Facts{Webhooks: []*holdfastv1.Webhook{{Name: "chat", Failures: 2, Waiting: 7,
			LastError: "503"},
			{Name: "well", Waiting: 3}, {Name: "off", Failures: 2, Waiting: 7, Disabled: true}}},
			[]string{"chat: failed tries: 2, waiting events: 7: 503"}},
		"HoldfastMachinesNeedIntervention": {Facts{Urgent: 2}, []string{"2 machines have an urgent issue"}},
		"HoldfastClockWrong": {Facts{Status: status("n1", 1, func(s *holdfastv1.ClusterStatus) {
			s.Peers[1].Warning = "clock: it is ahead"
		})},
			[]string{"n2: it is ahead"}},
		"HoldfastDirectoryOld": {Facts{Status: status("n1", 1, func(s *holdfastv1.ClusterStatus) {
			s.Peers[1].Warning = "its data directory is older than what it had acknowledged"
		})},
			[]string{"n2: its data directory is older than what it had acknowledged"}},
		"ClockAhead": {Facts{Recent: []*holdfastv1.Run{{CreatedAt: ago(-2 * time.Minute)}}},
			[]string{"by 2m0s"}},
	}
	for name, tt := range want {
		if tt.facts.Now = now; tt.facts.Status == nil {
			tt.facts.Status = status("n1", 1)
		}
		if diff := cmp.Diff(map[string][]string{name: tt.want}, firing(tt.facts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, all := len(want), len(Alerts(healthy)); got != all {
		t.Errorf("got tests of %d alerts, want %d", got, all)
	}
	if few := (Facts{Now: now, Status: status("n1", 1), Recent: failed(4, time.Minute)}); len(firing(few)) > 0 {
		t.Errorf("four failed runs: got %v", firing(few))
	}
}

// TestRules compares the alerts with the rules for Prometheus.
func TestRules(t *testing.T) {
	data, err := os.ReadFile("../../../../deploy/monitoring/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(data), -1) {
		want = append(want, m[1])
	}
	got := append(OnlyInPrometheus(), "ClockAhead")
	for _, a := range Alerts(Facts{}) {
		got = append(got, a.Name)
		severity := regexp.MustCompile(`alert: ` + a.Name + `\n(?s:.*?)severity: (\w+)`).FindStringSubmatch(string(data))
		if severity != nil && severity[1] != a.Severity {
			t.Errorf("%s: got severity %s, want %s", a.Name, a.Severity, severity[1])
		}
	}
	got = slices.DeleteFunc(got, func(s string) bool { return s == "ClockAhead" })
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// slowCluster returns a status after a second.
type slowCluster struct {
	holdfastv1.ClusterServiceClient
	asked int
	err   error
}

func (s *slowCluster) GetClusterStatus(
	ctx context.Context, _ *holdfastv1.GetClusterStatusRequest, _ ...grpc.CallOption,
) (*holdfastv1.ClusterStatus, error) {
	s.asked++
	select {
	case <-time.After(time.Second):
		return &holdfastv1.ClusterStatus{Leader: "n1"}, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCache checks that a status is kept for two seconds, that its first caller may leave, and that
// errors are not kept.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := NewCache(time.Now), &slowCluster{}
		first, leave := context.WithCancel(t.Context())
		go func() { _, _ = c.Status(first, s) }()
		synctest.Wait()
		leave()
		for _, want := range []int{1, 1, 2} {
			st, err := c.Status(t.Context(), s)
			if err != nil || st.GetLeader() != "n1" || s.asked != want {
				t.Errorf("got %v, %v after %d calls, want %d", st, err, s.asked, want)
			}
			time.Sleep(1100 * time.Millisecond) // sleep: fake clock
		}
		s.err = errors.New("no")
		time.Sleep(keep) // sleep: fake clock
		for range 2 {
			if _, err := c.Status(t.Context(), s); err == nil {
				t.Error("got no error")
			}
		}
		if s.asked != 4 {
			t.Errorf("got %d calls, want 4", s.asked)
		}
	})
}

// TestFullDisk checks that the alert of the disk also names a peer that has ended with a full disk,
// which warns no more.
func TestFullDisk(t *testing.T) {
	f := Facts{Status: status("n1", 1, func(st *holdfastv1.ClusterStatus) {
		st.Peers[1].Warning, st.Peers[2].Error = "2 GiB are free", "has stopped: the disk is full: write entry 1271"
	})}
	want := []string{"n2: 2 GiB are free", "n3: has stopped: the disk is full: write entry 1271"}
	if diff := cmp.Diff(want, f.disk()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
