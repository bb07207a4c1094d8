package client

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

type (
	serviceStream = grpc.ServerStreamingServer[holdfastv1.ServiceEvent]
	servicePart   struct {
		from   uint64 // expected cursor of the request
		events []*holdfastv1.ServiceEvent
		end    error // nil: the stream stays open
	}
)

// change returns an event of a service, whose name distinguishes its versions.
func change(cursor uint64, id, name string) *holdfastv1.ServiceEvent {
	return &holdfastv1.ServiceEvent{Cursor: cursor,
		Service: &holdfastv1.Service{Target: &holdfastv1.ServiceTarget{Id: id, ServiceName: name}}}
}

// A broken watch of services continues at another peer, without a loss or a repetition.
func TestWatchServicesResumes(t *testing.T) {
	broken, gone := status.Error(codes.Unavailable, "peer died"), status.Error(codes.OutOfRange, "cursor is gone")
	for _, tt := range []struct {
		name   string
		cursor uint64
		parts  []servicePart
		want   []string
	}{
		{"after the last change", 0, []servicePart{
			{0, []*holdfastv1.ServiceEvent{change(0, "a", "1"), change(7, "b", "1"), change(8, "a", "2")}, broken},
			{8, []*holdfastv1.ServiceEvent{change(9, "b", "2"), change(10, "z", "1")}, nil},
		}, []string{"a1", "b1", "a2", "b2", "z1"}},
		{"in the middle of the state", 0, []servicePart{
			{0, []*holdfastv1.ServiceEvent{change(0, "a", "1"), change(0, "b", "1")}, broken},
			{0, []*holdfastv1.ServiceEvent{change(0, "a", "1"), change(0, "b", "2"), change(9, "z", "1")}, nil},
		}, []string{"a1", "b1", "b2", "z1"}},
		{"no service in the state", 0, []servicePart{
			{0, []*holdfastv1.ServiceEvent{{Cursor: 5}}, broken},
			{5, []*holdfastv1.ServiceEvent{change(5, "a", "0"), change(6, "z", "1")}, nil},
		}, []string{"z1"}},
		{"lost cursor", 3, []servicePart{
			{3, []*holdfastv1.ServiceEvent{change(4, "a", "1"), change(5, "a", "2")}, broken},
			{5, nil, gone},
			{0, []*holdfastv1.ServiceEvent{change(0, "a", "2"), change(9, "z", "1")}, nil},
		}, []string{"a1", "a2", "z1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int32
			serve := func(r *holdfastv1.WatchServicesRequest, s serviceStream) error {
				i := int(n.Add(1)) - 1
				if i >= len(tt.parts) || r.GetCursor() != tt.parts[i].from || r.GetFilter() != "active = true" {
					return status.Errorf(codes.Internal, "got unexpected stream %d from %d with filter %q", i+1, r.GetCursor(),
						r.GetFilter())
				}
				for _, e := range tt.parts[i].events {
					if err := s.Send(e); err != nil {
						return err
					}
				}
				if tt.parts[i].end == nil {
					<-s.Context().Done()
					return s.Context().Err()
				}
				return tt.parts[i].end
			}
			c := dial(t, Config{Addrs: []string{startPeer(t, &fakePeer{services: serve}).addr,
				startPeer(t, &fakePeer{services: serve}).addr}})
			var got []string
			err := c.WatchServices(testContext(t), "active = true", tt.cursor, func(e *holdfastv1.ServiceEvent) error {
				id := fmt.Sprint(e.GetService().GetTarget().GetId(), e.GetService().GetTarget().GetServiceName())
				if got = append(got, id); id == "z1" {
					return errDone
				}
				return nil
			})
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, errDone) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
