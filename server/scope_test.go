package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
)

// scopedTo returns the context of a caller that is scoped to pools.
func scopedTo(pools ...string) context.Context {
	return auth.NewContext(context.Background(), &auth.Caller{
		Identity: &holdfastv1.Identity{Principal: "user:v", Role: holdfastv1.Role_VIEWER, Pools: pools,
			Method: auth.MethodToken},
	})
}

// kept is a stream that records messages, and ends its context when it has enough.
type kept[M any] struct {
	grpc.ServerStreamingServer[M]
	ctx    context.Context
	enough int
	cancel func()
	got    []*M
}

func (k *kept[M]) Context() context.Context { return k.ctx }

func (k *kept[M]) Send(m *M) error {
	k.got = append(k.got, m)
	if len(k.got) == k.enough {
		k.cancel()
	}
	return nil
}

// macA is the MAC address of m-a.
const macA = "aa:aa:aa:aa:aa:aa"

// twoPools returns a state with m-a in pool a and m-b in pool b, each with a run and a
// log.
func twoPools(t *testing.T) (*nodetest.Node, *Server) {
	t.Helper()
	n := nodetest.New()
	for pool, mac := range map[string]string{"a": macA, "b": "ba:bb:bb:bb:bb:bb"} {
		n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-" + pool,
			Spec: &holdfastv1.MachineSpec{Pool: pool, MacAddresses: []string{mac}}}})
		n.Start(t, "m-"+pool, "run-00"+pool, "plan/reboot")
		n.Begin(t, "run-00"+pool, 1)
		n.Log(t, "run-00"+pool, "secret of "+pool)
	}
	return n, New(Config{}, n, n.Peer, testProviders())
}

// TestScopedReads checks that a caller scoped to a pool finds no resource of another
// pool, by any method.
func TestScopedReads(t *testing.T) {
	_, s := twoPools(t)
	ms, rs := fleet.NewMachines(s.peer, s.providers), s.runs
	logs := func(ctx context.Context, run string) error {
		return rs.StreamRunLogs(&holdfastv1.StreamRunLogsRequest{RunId: run, NoFollow: true},
			&kept[holdfastv1.LogChunk]{ctx: ctx})
	}
	for _, tt := range []struct {
		name string
		get  func(ctx context.Context, machine, run string) error
	}{
		{"GetMachine", func(ctx context.Context, m, _ string) error {
			_, err := ms.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: m})
			return err
		}},
		{"ListMachineHistory", func(ctx context.Context, m, _ string) error {
			_, err := ms.ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: m})
			return err
		}},
		{"ExplainMachine", func(ctx context.Context, m, _ string) error {
			_, err := ms.ExplainMachine(ctx, &holdfastv1.ExplainMachineRequest{MachineId: m})
			return err
		}},
		{"GetRun", func(ctx context.Context, _, r string) error {
			_, err := rs.GetRun(ctx, &holdfastv1.GetRunRequest{RunId: r})
			return err
		}},
		{"StreamRunLogs", func(ctx context.Context, _, r string) error { return logs(ctx, r) }},
	} {
		for _, c := range []struct {
			pools []string
			a, b  bool
		}{{nil, true, true}, {[]string{"a"}, true, false}, {[]string{"b"}, false, true}, {[]string{"a", "b"}, true, true},
			{[]string{"c"}, false, false}} {
			for pool, want := range map[string]bool{"a": c.a, "b": c.b} {
				err := tt.get(scopedTo(c.pools...), "m-"+pool, "run-00"+pool)
				var refusal *fsm.Error
				if want && err != nil || !want && (!errors.As(err, &refusal) || refusal.Code != fsm.NotFound) {
					t.Errorf("%s of pool %s for %v: got %v, want found %v", tt.name, pool, c.pools, err, want)
				}
			}
		}
	}
}

func TestScopedLists(t *testing.T) {
	n, s := twoPools(t)
	ms, rs := fleet.NewMachines(s.peer, s.providers), s.runs
	ctx := scopedTo("a")
	for _, filter := range []string{"", `machine_id = "m-b"`} {
		machines, err := ms.ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: filter})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := rs.ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: filter})
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if filter != "" {
			want = 0
		}
		if len(machines.GetMachines()) != want || len(runs.GetRuns()) != want || want == 1 &&
			runs.GetRuns()[0].GetMachineId() != "m-a" {
			t.Errorf("filter %q: got %v and %v, want %d of each", filter, machines.GetMachines(), runs.GetRuns(), want)
		}
	}

	wctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	w := &kept[holdfastv1.RunEvent]{ctx: wctx, enough: 1, cancel: cancel}
	done, cursor := make(chan error), n.Peer.View().LastRunEvent()
	go func() { done <- rs.WatchRuns(&holdfastv1.WatchRunsRequest{Cursor: cursor}, w) }()
	n.End(t, "run-00b", 1, holdfastv1.Attempt_SUCCEEDED)
	n.End(t, "run-00a", 1, holdfastv1.Attempt_SUCCEEDED)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, e := range w.got {
		if e.GetSnapshot().GetMachineId() != "m-a" {
			t.Errorf("got an event of %s", e.GetSnapshot().GetMachineId())
		}
	}
}

// TestScopedProviders checks that a caller scoped to pools sees only their providers. A
// provider that an operator registered belongs to no pool.
func TestScopedProviders(t *testing.T) {
	n, s := twoPools(t)
	for id, pool := range map[string]string{"p-1": "b", "p-2": "a", "p-3": "", "p-4": "b", "p-5": "a"} {
		n.Do(t, &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{ProviderId: id, PoolId: pool}})
	}
	ps := registry.NewPools(s.peer, 0)
	for _, tt := range []struct {
		pools []string
		want  []string
	}{
		{nil, []string{"p-1", "p-2", "p-3", "p-4", "p-5"}},
		{[]string{"a"}, []string{"p-2", "p-5"}},
		{[]string{"a", "b"}, []string{"p-1", "p-2", "p-4", "p-5"}},
		{[]string{"c"}, nil},
	} {
		var got []string
		for token := ""; ; { // page by page: what is left out does not end a list
			resp, err := ps.ListProviders(scopedTo(tt.pools...), &holdfastv1.ListProvidersRequest{PageSize: 1, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range resp.GetProviders() {
				got = append(got, p.GetProviderId())
			}
			if token = resp.GetNextPageToken(); token == "" {
				break
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("scoped to %v (-want +got):\n%s", tt.pools, diff)
		}
	}
}
