package check

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// The tests below have leases of 6 s that are lost within 19 s. Times are in seconds.

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func trip(kind workload.TripKind, call, ret float64, o workload.Outcome) workload.Trip {
	return workload.Trip{Kind: kind, Call: sec(call), Return: sec(ret), Outcome: o, ID: "a"}
}

// beats returns a registration and heartbeats, each answered within 0.1 s.
func beats(at ...float64) []workload.Trip {
	all := []workload.Trip{trip(workload.Register, at[0], at[0]+0.1, workload.OK)}
	for _, t := range at[1:] {
		all = append(all, trip(workload.Beat, t, t+0.1, workload.OK))
	}
	return all
}

func unsure(kind workload.TripKind, call, ret float64) workload.Trip {
	return trip(kind, call, ret, workload.Unknown)
}

func sight(state workload.Condition, call float64) workload.Sight {
	return workload.Sight{Holder: workload.Machine, ID: "a", Name: "a", State: state, Call: sec(call),
		Return: sec(call + 0.1)}
}

// alone returns a fleet of one agent, with its last observation.
func alone(last workload.Sight, trips ...workload.Trip) *workload.Fleet {
	return &workload.Fleet{Terms: workload.ShortLeases(), Last: []workload.Sight{last},
		Lives: []workload.Life{{Holder: workload.Machine, Name: "a", Trips: trips}}}
}

func (t fleetCase) history() *workload.History {
	h := of()
	h.Fleet = alone(t.last, t.trips...)
	h.Fleet.Sights, h.Fleet.Deaf, h.Fleet.Unrest = t.sights, t.deaf, t.unrest
	return h
}

type fleetCase struct {
	trips        []workload.Trip
	sights       []workload.Sight
	last         workload.Sight
	deaf, unrest []workload.Span
	want         string
}

func TestEarly(t *testing.T) {
	up := sight(workload.Up, 100)
	for name, tt := range map[string]fleetCase{
		"never lost":   {beats(0, 1, 2), nil, sight(workload.Up, 3), nil, nil, ""},
		"lost in time": {beats(0, 1, 2), []workload.Sight{sight(workload.Lost, 8.1)}, up, nil, nil, ""},
		"lost early": {beats(0, 1, 2), []workload.Sight{sight(workload.Lost, 7.8)}, up, nil, nil,
			"lost at most 5.900s after"},
		"lost early at the end": {beats(0, 1, 2), nil, sight(workload.Lost, 5), nil, nil, "lost at most 3.100s after"},
		"a registration counts": {beats(2), []workload.Sight{sight(workload.Lost, 7)}, up, nil, nil, "lost at most"},
		"heartbeat without an answer": {append(beats(0), unsure(workload.Beat, 2, 3)),
			[]workload.Sight{sight(workload.Lost, 7)}, up, nil, nil, ""},
		"refused heartbeat": {append(beats(0), trip(workload.Beat, 2, 3, workload.Refused)),
			[]workload.Sight{sight(workload.Lost, 7)}, up, nil, nil, ""},
		"back during a read": {beats(0, 7.15), []workload.Sight{sight(workload.Lost, 7.1)}, up, nil, nil, ""},
		"back before a read": {beats(0, 7), []workload.Sight{sight(workload.Lost, 7.2)}, up, nil, nil,
			"lost at most 0.300s after"},
		"without a leader": {beats(0, 1, 2), []workload.Sight{sight(workload.Lost, 10)}, up,
			[]workload.Span{{From: sec(3), To: sec(6)}}, nil, "lost at most 5.100s after"},
		"with a leader for long enough": {beats(0, 1, 2), []workload.Sight{sight(workload.Lost, 11)}, up,
			[]workload.Span{{From: sec(3), To: sec(6)}}, nil, ""},
		"a fault is no excuse": {beats(0, 1, 2), []workload.Sight{sight(workload.Lost, 7)}, up, nil,
			[]workload.Span{{From: sec(1), To: sec(7)}}, "lost at most"},
		"registration without an answer": {[]workload.Trip{unsure(workload.Register, 0, 1)},
			[]workload.Sight{sight(workload.Lost, 2)}, up, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, early(tt.history(), record()), tt.want) })
	}
}

func TestMissed(t *testing.T) {
	for name, tt := range map[string]fleetCase{
		"steady heartbeats": {beats(0, 1, 2), nil, sight(workload.Up, 20), nil, nil, ""},
		"stopped and lost": {beats(0, 1), []workload.Sight{sight(workload.Lost, 15)}, sight(workload.Lost, 30),
			nil, nil, ""},
		"lost late": {beats(0, 1), []workload.Sight{sight(workload.Lost, 25)}, sight(workload.Lost, 30),
			nil, nil, "was declared lost only 23.900s later"},
		"lost late after a fault": {beats(0, 1), []workload.Sight{sight(workload.Lost, 25)}, sight(workload.Lost, 30),
			nil, []workload.Span{{From: sec(2), To: sec(3)}}, ""},
		"stopped and up": {beats(0, 1), nil, sight(workload.Up, 30), nil, nil,
			"sent no heartbeat from 1.100s to 30.000s"},
		"not yet due": {beats(0, 1), nil, sight(workload.Up, 20), nil, nil, ""},
		"during a fault": {beats(0, 1), nil, sight(workload.Up, 30), nil,
			[]workload.Span{{From: sec(5), To: sec(12)}}, ""},
		"during a short fault": {beats(0, 1), nil, sight(workload.Up, 30), nil,
			[]workload.Span{{From: sec(5), To: sec(8)}}, "was not declared lost"},
		"unknown heartbeat": {append(beats(0, 1), unsure(workload.Beat, 2, 3)), nil, sight(workload.Up, 30), nil,
			nil, ""},
		"long after an unknown one": {append(beats(0, 1), unsure(workload.Beat, 2, 3)), nil, sight(workload.Up, 33), nil,
			nil, "from 13.000s"},
		"heartbeat never sent": {append(beats(0, 1), trip(workload.Beat, 2, 3, workload.NotApplied)), nil,
			sight(workload.Up, 30), nil, nil, "from 1.100s"},
		"deregistered": {append(beats(0, 1), unsure(workload.Farewell, 2, 3)), nil, sight(workload.Up, 30),
			nil, nil, ""},
		"lost and back": {append(beats(0, 1), beats(30, 31)...), []workload.Sight{sight(workload.Lost, 12)},
			sight(workload.Up, 32), nil, nil, ""},
		"back without a recorded loss": {append(beats(0, 1), beats(30, 31)...), nil, sight(workload.Up, 32), nil, nil,
			"from 1.100s to 30.000s"},
		"lost at another time": {append(beats(0, 1), beats(30, 31)...),
			[]workload.Sight{sight(workload.Lost, 0.5), sight(workload.Lost, 31)}, sight(workload.Up,
				32), nil, nil, "from 1.100s to 30.000s"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, missed(tt.history(), record()), tt.want) })
	}
	h := fleetCase{trips: beats(0)}.history()
	h.Fleet.Last = nil
	expect(t, missed(h, record()), "were not read at the end")
}

func TestIdentities(t *testing.T) {
	at := func(id, name string, c workload.Condition) workload.Sight {
		return workload.Sight{Holder: workload.Service, ID: id, Name: name, State: c}
	}
	register := func(id string, call float64, o workload.Outcome, fresh bool) workload.Trip {
		t := trip(workload.Register, call, call+0.1, o)
		t.ID, t.New = id, fresh
		return t
	}
	one := []workload.Trip{register("x", 0, workload.OK, true), register("x", 10, workload.OK, false)}
	bye := func(o workload.Outcome) workload.Trip {
		t := trip(workload.Farewell, 20, 20.1, o)
		t.ID = "x"
		return t
	}
	for name, tt := range map[string]struct {
		trips []workload.Trip
		last  []workload.Sight
		want  string
	}{
		"one id": {one, []workload.Sight{at("x", "s", workload.Up)}, ""},
		"another id after a restart": {append(one[:1:1], register("y", 10, workload.OK, true)),
			[]workload.Sight{at("x", "s", workload.Lost), at("y", "s", workload.Up)}, "several ids: [x y]"},
		"lost id": {one, nil, "x (s) is not recorded"},
		"id that was never registered": {one, []workload.Sight{at("x", "s", workload.Up), at("y", "s", workload.Up)},
			"was never registered"},
		"registration without an answer": {append(one[:2:2], register("", 5, workload.Unknown, true)),
			[]workload.Sight{at("x", "s", workload.Up), at("y", "s", workload.Lost)}, ""},
		"two ids for one unanswered registration": {append(one[:2:2], register("", 5, workload.Unknown, true)),
			[]workload.Sight{at("x", "s", workload.Up), at("y", "s", workload.Lost),
				at("z", "s", workload.Lost)}, "was never registered"},
		"deregistered": {append(one[:2:2], bye(workload.OK)), []workload.Sight{at("x", "s", workload.Gone)}, ""},
		"deregistered but listed": {append(one[:2:2], bye(workload.OK)), []workload.Sight{at("x", "s", workload.Lost)},
			"its deregistration was acknowledged"},
		"perhaps left, gone": {append(one[:2:2], bye(workload.Unknown)),
			[]workload.Sight{at("x", "s", workload.Gone)}, ""},
		"perhaps left, lost": {append(one[:2:2], bye(workload.Unknown)),
			[]workload.Sight{at("x", "s", workload.Lost)}, ""},
		"gone without deregistration": {one, []workload.Sight{at("x", "s", workload.Gone)}, "but never deregistered"},
		"gone after a new registration": {append(one[:2:2], bye(workload.OK), register("x", 40, workload.OK, false)),
			[]workload.Sight{at("x", "s", workload.Gone)}, "but never deregistered"},
	} {
		t.Run(name, func(t *testing.T) {
			h := of()
			h.Fleet = &workload.Fleet{Terms: workload.ShortLeases(), Last: tt.last,
				Lives: []workload.Life{{Holder: workload.Service, Name: "s", Trips: tt.trips}}}
			expect(t, identities(h, record()), tt.want)
		})
	}
	// The final read may precede a trip that was in flight, and precedes later ones.
	for _, tt := range []struct {
		at    float64
		trips []workload.Trip
		last  []workload.Sight
		want  string
	}{
		{5, one, nil, "x (s) is not recorded"},
		{0.05, one, nil, ""},
		{20.05, append(one[:2:2], bye(workload.OK)), []workload.Sight{at("x", "s", workload.Up)}, ""},
		{21, append(one[:2:2], bye(workload.OK)), []workload.Sight{at("x", "s", workload.Up)},
			"its deregistration was acknowledged"},
		{30, append(one[:2:2], bye(workload.OK), register("x", 40, workload.OK, false)),
			[]workload.Sight{at("x", "s", workload.Gone)}, ""},
	} {
		h := of()
		h.Fleet = &workload.Fleet{Terms: workload.ShortLeases(), LastAt: sec(tt.at), Last: tt.last,
			Lives: []workload.Life{{Holder: workload.Service, Name: "s", Trips: tt.trips}}}
		expect(t, identities(h, record()), tt.want)
	}
	h := of()
	h.Fleet = &workload.Fleet{Last: []workload.Sight{at("x", "s", workload.Up)},
		Lives: []workload.Life{{Name: "s", Trips: one}, {Name: "t", Trips: one}}}
	expect(t, identities(h, record()), "has the id of s")
}

// agentRecord returns a final record of the agent "a", whose facet went through some states.
func agentRecord(states ...string) *final.Record {
	f := record()
	last := ""
	for i, s := range states {
		f.History["a"] = append([]*holdfastv1.HistoryEntry{{Sequence: uint64(i + 1), Facet: "agent", From: last, To: s,
			TriggeredBy: "system",
			At:          &timestamppb.Timestamp{Seconds: int64(i)}}}, f.History["a"]...)
		last = s
	}
	reason := map[string]string{"REGISTERED": "AgentRegistered", "READY": "AgentKeepalive",
		"EXPIRED": "AgentExpired"}[last]
	f.Agents = map[string]*holdfastv1.Machine{"a": {MachineId: "a", Status: &holdfastv1.MachineStatus{
		AgentState: holdfastv1.Agent_State(holdfastv1.Agent_State_value[last]),
		Conditions: []*holdfastv1.Condition{{Type: "AgentReady", Reason: reason}}}}}
	return f
}

func TestLosses(t *testing.T) {
	change := func(f *final.Record, do func([]*holdfastv1.HistoryEntry, *holdfastv1.Machine)) *final.Record {
		do(f.History["a"], f.Agents["a"])
		return f
	}
	stopped := fleetCase{trips: append(beats(0, 1), beats(30, 31)...), last: sight(workload.Up, 32)}
	steady := fleetCase{trips: beats(0, 1, 2, 3), last: sight(workload.Up, 4)}
	for name, tt := range map[string]struct {
		c    fleetCase
		f    *final.Record
		want string
	}{
		"never lost":         {steady, agentRecord("REGISTERED", "READY"), ""},
		"lost after the end": {steady, agentRecord("REGISTERED", "READY", "EXPIRED"), ""},
		"lost once and back": {stopped, agentRecord("REGISTERED", "READY", "EXPIRED", "REGISTERED", "READY"), ""},
		"loss not recorded": {stopped, agentRecord("REGISTERED", "READY", "REGISTERED", "READY"),
			"was lost 0 times in the record, and had at least 1"},
		"lost without an absence": {steady, agentRecord("REGISTERED", "READY", "EXPIRED", "REGISTERED", "READY", "EXPIRED"),
			"was lost 2 times in the record, and had at least 0 and at most 1"},
		"no registration in between": {stopped, agentRecord("REGISTERED", "READY", "EXPIRED", "READY"),
			`went from "EXPIRED" to "READY"`},
		"entry twice": {stopped, agentRecord("REGISTERED", "READY", "EXPIRED", "EXPIRED"),
			`went from "EXPIRED" to "EXPIRED"`},
		"missing entry": {stopped, change(agentRecord("REGISTERED", "READY", "EXPIRED"),
			func(e []*holdfastv1.HistoryEntry, _ *holdfastv1.Machine) { e[0].Sequence = 4 }), "has the number 4"},
		"out of order": {stopped, change(agentRecord("REGISTERED", "READY", "EXPIRED"),
			func(e []*holdfastv1.HistoryEntry, _ *holdfastv1.Machine) { e[0].At.Seconds = 0 }), "is older than"},
		"changed by an operator": {stopped, change(agentRecord("REGISTERED", "READY", "EXPIRED"),
			func(e []*holdfastv1.HistoryEntry, _ *holdfastv1.Machine) { e[0].TriggeredBy = "operator" }),
			`by "operator", want the system`},
		"a break": {stopped, change(agentRecord("REGISTERED", "READY", "EXPIRED"),
			func(e []*holdfastv1.HistoryEntry, _ *holdfastv1.Machine) { e[0].From = "REGISTERED" }),
			`its agent was "READY", and went from "REGISTERED"`},
		"different state": {stopped, change(agentRecord("REGISTERED", "READY", "EXPIRED"),
			func(_ []*holdfastv1.HistoryEntry, m *holdfastv1.Machine) {
				m.Status.AgentState = holdfastv1.Agent_READY
			}), "its agent is READY, and the history ends"},
		"different condition": {stopped, change(agentRecord("REGISTERED", "READY", "EXPIRED"),
			func(_ []*holdfastv1.HistoryEntry, m *holdfastv1.Machine) {
				m.Status.Conditions[0].Reason = "AgentKeepalive"
			}), "the condition says AgentKeepalive"},
		"lost machine": {steady, record(), "it is not recorded"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, losses(tt.c.history(), tt.f), tt.want) })
	}
}

func TestLossesOfServices(t *testing.T) {
	h := fleetCase{trips: append(beats(0, 1), beats(30, 31)...), last: sight(workload.Up, 32)}.history()
	h.Fleet.Lives[0].Holder = workload.Service
	with := func(reasons ...string) *final.Record {
		s := &holdfastv1.Service{Target: &holdfastv1.ServiceTarget{Id: "a"}}
		for _, r := range reasons {
			s.States = append(s.States, &holdfastv1.ServiceState{Reason: r})
		}
		return &final.Record{Services: []*holdfastv1.Service{s}}
	}
	const miss = "missing in action"
	expect(t, losses(h, with("healthy", miss, "healthy")), "")
	expect(t, losses(h, with("healthy", "healthy")), "lost 0 times")
	expect(t, losses(h, with("healthy", miss, "healthy", miss, "healthy", miss)), "lost 3 times")
	expect(t, losses(h, with("h", "h", "h", "h", "h", "h", "h", "h", "h", "h")), "") // the older ones are forgotten
}

// TestAtMost checks that heartbeats with an unknown outcome count as those that allow the most
// losses.
func TestAtMost(t *testing.T) {
	for name, tt := range map[string]struct {
		trips []workload.Trip
		deaf  []workload.Span
		want  int
	}{
		"no heartbeats":        {nil, nil, 0},
		"only after the end":   {beats(0, 5, 10), nil, 1},
		"one gap":              {beats(0, 5, 12), nil, 2},
		"gap without a leader": {beats(0, 5, 12), []workload.Span{{From: sec(6), To: sec(8)}}, 1},
		"unknown heartbeats": {append(beats(0), append([]workload.Trip{unsure(workload.Beat, 3, 4)},
			beats(7)...)...), nil, 2},
		"unknown registration, lost twice": {append(beats(0), append([]workload.Trip{unsure(workload.Register, 7, 8)},
			beats(15)...)...), nil, 3},
		"only an unknown registration": {[]workload.Trip{unsure(workload.Register, 0, 1)}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := alone(workload.Sight{}, tt.trips...)
			f.Deaf = tt.deaf
			if got := atMost(f, f.Lives[0], "a"); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestDeclared(t *testing.T) {
	pool := func(from, to int, k workload.Kind, o workload.Outcome, code string) workload.Op {
		return workload.Op{Kind: k, Pool: "p", Call: time.Duration(from), Return: time.Duration(to), Outcome: o, Code: code}
	}
	add, drop := pool(0, 10, workload.AddPool, workload.OK, ""), pool(40, 50, workload.DropPool, workload.OK, "")
	as := func(op workload.Op, o workload.Outcome, code string) workload.Op {
		op.Outcome, op.Code = o, code
		return op
	}
	see := pool(20, 30, workload.SeePool, workload.OK, "")
	unseen := as(see, workload.Refused, "NotFound")
	for name, tt := range map[string]struct {
		ops    []workload.Op
		listed bool
		want   string
	}{
		"created":              {[]workload.Op{add, see}, true, ""},
		"created and lost":     {[]workload.Op{add}, false, "p is lost"},
		"created and not seen": {[]workload.Op{add, unseen}, true, "p was not found"},
		"created and deleted":  {[]workload.Op{add, see, drop}, false, ""},
		"deleted and listed":   {[]workload.Op{add, drop}, true, "p is listed after"},
		"deleted and seen": {[]workload.Op{add, drop, pool(60, 70, workload.SeePool, workload.OK, "")}, false,
			"p was found after"},
		"lost before deleted":     {[]workload.Op{add, as(drop, workload.Refused, "NotFound")}, false, "p was lost before"},
		"perhaps deleted":         {[]workload.Op{add, as(drop, workload.Unknown, "")}, false, ""},
		"perhaps not deleted":     {[]workload.Op{add, as(drop, workload.Unknown, "")}, true, ""},
		"not deleted, and lost":   {[]workload.Op{add, as(drop, workload.NotApplied, "")}, false, "p is lost"},
		"perhaps created":         {[]workload.Op{as(add, workload.Unknown, "")}, true, ""},
		"perhaps not created":     {[]workload.Op{as(add, workload.Unknown, "")}, false, ""},
		"not created, but listed": {[]workload.Op{as(add, workload.NotApplied, "")}, true, "p is listed, although"},
		"refused":                 {[]workload.Op{as(add, workload.Refused, "InvalidArgument")}, false, "refused"},
		"read while added": {[]workload.Op{add, pool(5, 30, workload.SeePool, workload.Refused, "NotFound")},
			true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := record()
			f.Declared = map[string]bool{"p": tt.listed}
			expect(t, declared(of(tt.ops...), f), tt.want)
		})
	}
}

func TestFleetTraffic(t *testing.T) {
	f := &workload.Fleet{Terms: workload.ShortLeases()}
	for _, kind := range []workload.Holder{workload.Machine, workload.Pool, workload.Service} {
		f.Lives = append(f.Lives,
			workload.Life{Holder: kind, Trips: beats(0, 1, 2, 3), Stops: []workload.Stop{{How: workload.Killed}}})
	}
	expect(t, fleetTraffic(f), "no access token was valid at a peer")
	token := trip(workload.Token, 0, 0, workload.OK)
	token.Peer = 2
	f.Lives[2].Trips = append([]workload.Trip{token}, f.Lives[2].Trips...)
	expect(t, fleetTraffic(f), "")
	f.Lives[1].Stops, f.Lives[0].Trips = nil, nil
	expect(t, fleetTraffic(f), "no client of kind pool was killed")
	expect(t, fleetTraffic(f), "0 of 1 clients of kind machine sent heartbeats")
}
