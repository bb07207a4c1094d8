package client

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

type auditStream = grpc.ServerStreamingServer[holdfastv1.AuditEvent]

// auditPeer has events 3 to 9, sends the requested ones, and breaks the stream after breakAfter
// events (0: never).
func auditPeer(breakAfter int, requests *[]uint64) func(*holdfastv1.ExportAuditEventsRequest, auditStream) error {
	return func(r *holdfastv1.ExportAuditEventsRequest, s auditStream) error {
		*requests = append(*requests, r.GetFromSequence())
		for n, at := 1, max(3, r.GetFromSequence()); at <= 9; n, at = n+1, at+1 {
			if err := s.Send(&holdfastv1.AuditEvent{Sequence: at}); err != nil {
				return err
			}
			if n == breakAfter {
				return status.Error(codes.Unavailable, "peer died")
			}
		}
		return nil
	}
}

func TestExportAuditResumes(t *testing.T) {
	for from, want := range map[uint64]string{0: "[3 4 5 6 7 8 9]", 5: "[5 6 7 8 9]", 10: "[]"} {
		var requests []uint64
		a := startPeer(t, &fakePeer{audit: auditPeer(1, &requests)})
		b := startPeer(t, &fakePeer{audit: auditPeer(2, &requests)})
		got := []uint64{}
		err := dial(t, Config{Addrs: []string{a.addr, b.addr}}).ExportAudit(testContext(t), from,
			func(e *holdfastv1.AuditEvent) error {
				got = append(got, e.GetSequence())
				return nil
			})
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("from %d: got %v, %v, want %s", from, got, err, want)
		}
		if from < 9 && len(requests) < 3 {
			t.Errorf("got requests from %v, want the stream broken twice", requests)
		}
	}
}

func TestExportAuditEndsWithTheCallersError(t *testing.T) {
	var requests []uint64
	a := startPeer(t, &fakePeer{audit: auditPeer(0, &requests)})
	mine := status.Error(codes.Unavailable, "disk full")
	err := dial(t, Config{Addrs: []string{a.addr}}).ExportAudit(testContext(t), 0,
		func(*holdfastv1.AuditEvent) error { return mine })
	if !errors.Is(err, mine) || len(requests) != 1 {
		t.Errorf("got %v after %d streams, want %v after 1", err, len(requests), mine)
	}
	gone := startPeer(t, &fakePeer{audit: func(*holdfastv1.ExportAuditEventsRequest, auditStream) error {
		return status.Error(codes.OutOfRange, "not kept")
	}})
	err = dial(t, Config{Addrs: []string{gone.addr}}).ExportAudit(testContext(t), 1,
		func(*holdfastv1.AuditEvent) error { return nil })
	if status.Code(err) != codes.OutOfRange {
		t.Errorf("export of missing events: got %v", err)
	}
}
