package fsm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func serviceOp(id, newID string) *internalv1.RegisterService {
	return &internalv1.RegisterService{NewId: newID, TtlMs: 30_000,
		Target: &holdfastv1.ServiceTarget{Id: id, ServiceName: "my-tool", Host: "192.168.1.100", Port: 9090,
			ServiceType: "tool-invoker"}}
}

func getService(t *testing.T, p *fsmtest.Peer, id string) *holdfastv1.Service {
	t.Helper()
	s, ok := p.View().Service(id)
	if !ok {
		t.Fatalf("service %s not found", id)
	}
	return s
}

// reasons returns the activity record of a service.
func reasons(s *holdfastv1.Service) []string {
	var all []string
	for _, st := range s.GetStates() {
		all = append(all, st.GetReason())
	}
	return all
}

func TestServiceLife(t *testing.T) {
	p := fsmtest.NewPeer()
	s := do(t, p, serviceOp("", uuid)).(*holdfastv1.Service)
	if s.GetTarget().GetId() != uuid || !s.GetActive() || s.GetDeregistered() ||
		!s.GetLastSeen().AsTime().Equal(p.Now) || s.GetPrincipal() != "tester" {
		t.Errorf("registered: %v", s)
	}
	n := p.View().LastServiceEvent()
	seen(t, p, 10, ref(ofService, uuid, 0))
	if got := p.View().LastServiceEvent(); got != n {
		t.Errorf("a ping made %d events", got-n)
	}
	expire(t, p, 39, ref(ofService, uuid, 1))
	if s := getService(t, p, uuid); !s.GetActive() {
		t.Errorf("missing too early: %v", s)
	}
	expire(t, p, 40, ref(ofService, uuid, 1))
	if s := getService(t, p, uuid); s.GetActive() || s.GetDeregistered() {
		t.Errorf("missing: %v, want it inactive and never deregistered", s)
	}
	seen(t, p, 50, ref(ofService, uuid, 0))
	if s := getService(t, p, uuid); !s.GetActive() {
		t.Errorf("after a ping: %v", s)
	}
	expire(t, p, 100, ref(ofService, uuid, 2))
	s = do(t, p, &internalv1.UpdateServiceState{Id: uuid, State: &holdfastv1.ServiceState{Healthy: false,
		Reason: "Database connection lost"}}).(*holdfastv1.Service)
	if !s.GetActive() || lease(t, p, ofService, uuid).GetExpiredAt() != nil {
		t.Errorf("after an update: %v, want it active: it was heard", s)
	}
	s = do(t, p, &internalv1.DeregisterService{Id: uuid}).(*holdfastv1.Service)
	if s.GetActive() || !s.GetDeregistered() {
		t.Errorf("deregistered: %v", s)
	}
	before := dump(t, p)
	do(t, p, &internalv1.DeregisterService{Id: uuid})
	do(t, p, &internalv1.UpdateServiceState{Id: uuid, State: &holdfastv1.ServiceState{Healthy: true}})
	seen(t, p, 100, ref(ofService, uuid, 0))
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("what is said of a service that was deregistered changes something:\n%s", diff)
	}
	s = do(t, p, serviceOp(uuid, "")).(*holdfastv1.Service) // it returns under its stored id
	if !s.GetActive() || s.GetDeregistered() || s.GetTarget().GetId() != uuid {
		t.Errorf("back: %v", s)
	}
	want := []string{"missing in action", "healthy", "missing in action", "Database connection lost",
		"deregistered"}
	if diff := cmp.Diff(want, reasons(s)); diff != "" {
		t.Errorf("activity record (-want +got):\n%s", diff)
	}
	expire(t, p, 1000, ref(ofService, uuid, lease(t, p, ofService, uuid).GetRef().GetGeneration()))
	s = do(t, p, &internalv1.DeregisterService{Target: &holdfastv1.ServiceTarget{Id: uuid},
		ByServer: true}).(*holdfastv1.Service)
	if got := reasons(s); got[len(got)-1] != "inactive due to service auto-deregistration" {
		t.Errorf("by the server: %v", got)
	}
}

// TestAutoDeregistration checks that the server deregisters a service that was missing for a
// day, and that its next ping revives it.
func TestAutoDeregistration(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, serviceOp(uuid, ""))
	auto := &internalv1.DeregisterService{Id: uuid, ByServer: true}
	if s := do(t, p, auto).(*holdfastv1.Service); s.GetDeregistered() {
		t.Errorf("an active service: %v", s)
	}
	expire(t, p, 1000, ref(ofService, uuid, 1))
	at := p.Now
	for age, want := range map[time.Duration]int{fsm.ServiceMissingFor - time.Minute: 0, fsm.ServiceMissingFor +
		time.Minute: 1} {
		if got := len(p.View().MissingServices(at.Add(age), 10)); got != want {
			t.Errorf("%d services are missing for %s, want %d", got, age, want)
		}
	}
	do(t, p, auto)
	s := getService(t, p, uuid)
	if !s.GetDeregistered() || fsm.AutoDeregistered(s) != true {
		t.Errorf("%v, want it deregistered by the server", s)
	}
	seen(t, p, 1100, ref(ofService, uuid, 0))
	if s := getService(t, p, uuid); !s.GetActive() || s.GetDeregistered() {
		t.Errorf("after a ping: %v", s)
	}
}

// TestRevivedServiceHasItsLifetime checks that a service that returns after its lease was deleted
// lives as long as any other.
func TestRevivedServiceHasItsLifetime(t *testing.T) {
	p := fsmtest.NewPeer()
	op := serviceOp(uuid, "")
	op.TtlMs = fsm.LifetimeOf(ofService).TTL.Milliseconds()
	do(t, p, op)
	expire(t, p, 100_000, ref(ofService, uuid, 1))
	do(t, p, &internalv1.DeregisterService{Id: uuid, ByServer: true})
	p.Now = p.Now.Add(2 * time.Hour)
	do(t, p, &internalv1.CheckpointLeases{ClockMs: 100_100})
	if l, ok := p.View().Lease(ofService, uuid); ok {
		t.Fatalf("the lease is still recorded: %v", l)
	}
	seen(t, p, 100_200, ref(ofService, uuid, 0))
	if got, want := lease(t, p, ofService, uuid).GetTtlMs(), op.GetTtlMs(); got != want {
		t.Errorf("a revived service lives for %d ms, want %d", got, want)
	}
}

func TestServiceIDs(t *testing.T) {
	p := fsmtest.NewPeer()
	const other = "550e8400-e29b-41d4-a716-446655440001"
	if s := do(t, p, serviceOp(other, "")).(*holdfastv1.Service); s.GetTarget().GetId() != other {
		t.Errorf("an id that was never seen is not adopted: %v", s)
	}
	do(t, p, serviceOp("", uuid))
	refused(t, p, serviceOp("", uuid), fsm.Aborted, fsm.ReasonIDTaken)
	refused(t, p, serviceOp("", "short"), fsm.InvalidArgument, "INVALID_FIELD")
	for _, id := range []string{"x", uuid + "0", "550e8400-e29b-41d4-a716-44665544000g",
		"550e8400ee29bb41d4aa716e446655440000"} {
		refused(t, p, serviceOp(id, ""), fsm.InvalidArgument, "INVALID_FIELD")
	}
	nameless := serviceOp("", "550e8400-e29b-41d4-a716-446655440002")
	nameless.Target.ServiceName = ""
	refused(t, p, nameless, fsm.InvalidArgument, "INVALID_FIELD")
	const never = "550e8400-e29b-41d4-a716-4466554400ff"
	refused(t, p, &internalv1.UpdateServiceState{Id: never, State: &holdfastv1.ServiceState{}}, fsm.NotFound,
		fsm.ReasonServiceNotFound)
	refused(t, p, &internalv1.DeregisterService{Id: never}, fsm.NotFound, fsm.ReasonServiceNotFound)
	refused(t, p, &internalv1.DeregisterService{}, fsm.NotFound, fsm.ReasonServiceNotFound)
	refused(t, p, &internalv1.UpdateServiceState{Id: uuid}, fsm.InvalidArgument, "INVALID_FIELD")

	// A client without an id is found by name, host and port, if only one service matches.
	where := serviceOp("", "").GetTarget()
	refused(t, p, &internalv1.DeregisterService{Target: where}, fsm.NotFound, fsm.ReasonServiceNotFound)
	do(t, p, &internalv1.DeregisterService{Id: other})
	if s := do(t, p, &internalv1.DeregisterService{Target: where}).(*holdfastv1.Service); s.GetTarget().GetId() != uuid {
		t.Errorf("deregistered %v", s)
	}
}

func TestServicesKeepTenStates(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, serviceOp("", uuid))
	at := &holdfastv1.ServiceState{Reason: "busy", Timestamp: timestamppb.New(p.Now)}
	for range 3 {
		do(t, p, &internalv1.UpdateServiceState{Id: uuid, State: at})
	}
	if s := getService(t, p, uuid); len(s.GetStates()) != 1 {
		t.Errorf("a state that was sent again: %v", s.GetStates())
	}
	for range 12 {
		do(t, p, &internalv1.UpdateServiceState{Id: uuid, State: &holdfastv1.ServiceState{Reason: "busy"}})
	}
	if s := getService(t, p, uuid); len(s.GetStates()) != 10 || s.GetStates()[0].GetReason() != "busy" ||
		s.GetStates()[9].GetTimestamp() == nil {
		t.Errorf("got %v", s.GetStates())
	}
}

// TestDeregisteredServicesAreForgotten checks that a service is deleted 30 days after its
// deregistration.
func TestDeregisteredServicesAreForgotten(t *testing.T) {
	p := fsmtest.NewPeer()
	const other = "550e8400-e29b-41d4-a716-446655440001"
	do(t, p, serviceOp(uuid, ""))
	do(t, p, &internalv1.DeregisterService{Id: uuid})
	p.Now = p.Now.Add(30*24*time.Hour - 10*time.Second)
	do(t, p, serviceOp(other, ""))
	getService(t, p, uuid)
	p.Now = p.Now.Add(time.Minute)
	do(t, p, serviceOp(other, ""))
	if s, ok := p.View().Service(uuid); ok {
		t.Errorf("still there: %v", s)
	}
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
}

func TestServiceEvents(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, serviceOp("", uuid))
	do(t, p, &internalv1.UpdateServiceState{Id: uuid, State: &holdfastv1.ServiceState{Healthy: true}})
	do(t, p, &internalv1.DeregisterService{Id: uuid})
	v := p.View()
	events, err := v.ServiceEvents(1, 10)
	if err != nil || len(events) != 2 || events[0].GetCursor() != 2 || !events[1].GetService().GetDeregistered() ||
		!events[1].GetAt().AsTime().Equal(p.Now) {
		t.Errorf("got %v, %v, want events 2 and 3", events, err)
	}
	if events, err := v.ServiceEvents(0, 1); err != nil || len(events) != 1 {
		t.Errorf("limited: got %v, %v", events, err)
	}
	var e *fsm.Error
	if _, err := v.ServiceEvents(4, 1); !errors.As(err, &e) || e.Reason != fsm.ReasonCursorGone {
		t.Errorf("a cursor that was never given: got %v", err)
	}
	if testing.Short() {
		return
	}
	do(t, p, serviceOp(uuid, ""))
	for range 1 << 14 {
		p.Do(&internalv1.UpdateServiceState{Id: uuid, State: &holdfastv1.ServiceState{Healthy: true}})
	}
	if _, err := p.View().ServiceEvents(3, 1); !errors.As(err, &e) || e.Reason != fsm.ReasonCursorGone {
		t.Errorf("a cursor of long ago: got %v", err)
	}
	if n := p.View().LastServiceEvent() - p.View().Meta().GetFirstServiceEvent() + 1; n != 1<<14 {
		t.Errorf("%d events are kept, want %d", n, 1<<14)
	}
}
