package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// audited returns clients of a server with n events in its audit trail.
func audited(t *testing.T, n *nodetest.Node, events int) (*Server, holdfastv1.AuditServiceClient) {
	t.Helper()
	s, c := serve(t, n, Config{})
	for i := range events {
		n.Do(t, &internalv1.RecordDenials{Events: []*holdfastv1.AuditEvent{{Principal: fmt.Sprintf("user:%d", i%3),
			Method: "/m", Outcome: "PERMISSION_DENIED"}}})
	}
	return s, holdfastv1.NewAuditServiceClient(c.conn)
}

func export(ctx context.Context, c holdfastv1.AuditServiceClient, from uint64) ([]*holdfastv1.AuditEvent, error) {
	stream, err := c.ExportAuditEvents(ctx, &holdfastv1.ExportAuditEventsRequest{FromSequence: from})
	if err != nil {
		return nil, err
	}
	var events []*holdfastv1.AuditEvent
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

// TestEveryWriteIsAudited calls each service once, allowed and refused. Each call is one
// event.
func TestEveryWriteIsAudited(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	_, _ = c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-1"}})
	_, _ = c.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: "plan/none"})
	_, _ = c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-1"})
	_, _ = c.StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: "m-1", RequestId: "r-1", Type: "REBOOT"})
	list, err := holdfastv1.NewAuditServiceClient(c.conn).ListAuditEvents(ctx,
		&holdfastv1.ListAuditEventsRequest{Filter: `principal = anonymous AND at > "2020-01-01T00:00:00Z"`})
	if err != nil {
		t.Fatal(err)
	}
	run, _ := n.Peer.View().RunByRequest("m-1", "r-1")
	want := []string{
		"3 holdfast.v1.RunService/StartRun machines/m-1/runs/" + run.GetRunId() + " r-1 OK",
		"2 holdfast.v1.PlanService/DeletePlan plans/plan/none  NOT_FOUND",
		"1 holdfast.v1.MachineService/RegisterMachine machines/m-1  OK",
	}
	if len(list.GetEvents()) != len(want) {
		t.Fatalf("got %v, want %q", list.GetEvents(), want)
	}
	for i, e := range list.GetEvents() {
		if got := fmt.Sprint(e.GetSequence(), " ", e.GetMethod(), " ", e.GetResource(), " ", e.GetRequestId(), " ",
			e.GetOutcome()); got != want[i] {
			t.Errorf("event %d: got %q, want %q", i, got, want[i])
		}
	}
}

func TestListAuditEvents(t *testing.T) {
	_, c := audited(t, nodetest.New(), 7)
	ctx := testCtx(t)
	var got []uint64
	token := ""
	for {
		r, err := c.ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{PageSize: 3, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.GetEvents() {
			got = append(got, e.GetSequence())
		}
		if token = r.GetNextPageToken(); token == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[7 6 5 4 3 2 1]" {
		t.Errorf("got %v, want all of them, newest first", got)
	}
	for filter, want := range map[string]int{"principal = user:1": 2, `principal = "user:*"`: 7, "sequence >= 6": 2,
		"outcome != OK": 7, "resource = machines/m-1": 0} {
		r, err := c.ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{Filter: filter})
		if err != nil || len(r.GetEvents()) != want {
			t.Errorf("filter %q: got %d, %v, want %d", filter, len(r.GetEvents()), err, want)
		}
	}
	_, err := c.ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{Filter: "hash = x"})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = c.ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{PageToken: "x"})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

func TestExportAuditEvents(t *testing.T) {
	const events = 2*256 + 3 // more than two batches
	n := nodetest.New()
	_, c := audited(t, n, events)
	ctx := testCtx(t)
	for from, want := range map[uint64]int{0: events, 1: events, 2: events - 1, events: 1, events + 1: 0} {
		got, err := export(ctx, c, from)
		if err != nil || len(got) != want {
			t.Fatalf("from %d: got %d events, %v, want %d", from, len(got), err, want)
		}
		var chain holdfastv1.AuditChain
		for _, e := range got {
			if err := chain.Add(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := export(ctx, c, events+2)
	wantError(t, err, codes.OutOfRange, "CURSOR_GONE")
	_, none := audited(t, nodetest.New(), 0)
	if got, err := export(ctx, none, 0); err != nil || len(got) != 0 {
		t.Errorf("of nothing: got %v, %v", got, err)
	}
}

func TestExportEndsWithThePeer(t *testing.T) {
	s, c := audited(t, nodetest.New(), 3)
	s.Drain()
	ctx, cancel := context.WithTimeout(testCtx(t), 10*time.Second)
	defer cancel()
	_, err := export(ctx, c, 0)
	wantError(t, err, codes.Unavailable, "SHUTTING_DOWN")
}
