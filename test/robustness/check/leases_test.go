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

// observations shortens the tables below.
type observations = []workload.Observation

func request(kind workload.RequestKind, call, ret float64, o workload.Outcome) workload.Request {
	return workload.Request{Kind: kind, Call: sec(call), Return: sec(ret), Outcome: o, ID: "a"}
}

// heartbeats returns a registration and heartbeats, each answered within 0.1 s.
func heartbeats(at ...float64) []workload.Request {
	all := []workload.Request{request(workload.Register, at[0], at[0]+0.1, workload.OK)}
	for _, t := range at[1:] {
		all = append(all, request(workload.Heartbeat, t, t+0.1, workload.OK))
	}
	return all
}

func unsure(kind workload.RequestKind, call, ret float64) workload.Request {
	return request(kind, call, ret, workload.Unknown)
}

func observed(state workload.Condition, call float64) workload.Observation {
	return workload.Observation{Holder: workload.Machine, ID: "a", Name: "a", State: state, Call: sec(call),
		Return: sec(call + 0.1)}
}

// alone returns a fleet of one agent, with its last observation.
func alone(last workload.Observation, requests ...workload.Request) *workload.Fleet {
	return &workload.Fleet{LeaseTimes: workload.ShortLeases(), Last: observations{last},
		Clients: []workload.LeaseClient{{Holder: workload.Machine, Name: "a", Requests: requests}}}
}

func (t fleetCase) history() *workload.History {
	h := of()
	h.Fleet = alone(t.last, t.requests...)
	h.Fleet.Observations, h.Fleet.NoQuorum, h.Fleet.Disturbed = t.observations, t.noQuorum, t.disturbed
	return h
}

type fleetCase struct {
	requests            []workload.Request
	observations        []workload.Observation
	last                workload.Observation
	noQuorum, disturbed []workload.Span
	want                string
}

func TestEarly(t *testing.T) {
	up := observed(workload.Up, 100)
	for name, tt := range map[string]fleetCase{
		"never lost":   {heartbeats(0, 1, 2), nil, observed(workload.Up, 3), nil, nil, ""},
		"lost in time": {heartbeats(0, 1, 2), observations{observed(workload.Lost, 8.1)}, up, nil, nil, ""},
		"lost early": {heartbeats(0, 1, 2), observations{observed(workload.Lost, 7.8)}, up, nil, nil,
			"lost at most 5.900s after"},
		"lost early at the end": {heartbeats(0, 1, 2), nil, observed(workload.Lost, 5), nil, nil,
			"lost at most 3.100s after"},
		"a registration counts": {heartbeats(2), observations{observed(workload.Lost, 7)}, up, nil, nil, "lost at most"},
		"heartbeat without an answer": {append(heartbeats(0), unsure(workload.Heartbeat, 2, 3)),
			observations{observed(workload.Lost, 7)}, up, nil, nil, ""},
		"refused heartbeat": {append(heartbeats(0), request(workload.Heartbeat, 2, 3, workload.Refused)),
			observations{observed(workload.Lost, 7)}, up, nil, nil, ""},
		"back during a read": {heartbeats(0, 7.15), observations{observed(workload.Lost, 7.1)}, up, nil, nil, ""},
		"back before a read": {heartbeats(0, 7), observations{observed(workload.Lost, 7.2)}, up, nil, nil,
			"lost at most 0.300s after"},
		"without a leader": {heartbeats(0, 1, 2), observations{observed(workload.Lost, 10)}, up,
			[]workload.Span{{From: sec(3), To: sec(6)}}, nil, "lost at most 5.100s after"},
		"with a leader for long enough": {heartbeats(0, 1, 2), observations{observed(workload.Lost, 11)}, up,
			[]workload.Span{{From: sec(3), To: sec(6)}}, nil, ""},
		"a fault is no excuse": {heartbeats(0, 1, 2), observations{observed(workload.Lost, 7)}, up, nil,
			[]workload.Span{{From: sec(1), To: sec(7)}}, "lost at most"},
		"registration without an answer": {[]workload.Request{unsure(workload.Register, 0, 1)},
			observations{observed(workload.Lost, 2)}, up, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, early(tt.history(), record()), tt.want) })
	}
}

func TestMissed(t *testing.T) {
	for name, tt := range map[string]fleetCase{
		"steady heartbeats": {heartbeats(0, 1, 2), nil, observed(workload.Up, 20), nil, nil, ""},
		"stopped and lost": {heartbeats(0, 1), observations{observed(workload.Lost, 15)}, observed(workload.Lost, 30),
			nil, nil, ""},
		"lost late": {heartbeats(0, 1), observations{observed(workload.Lost, 25)}, observed(workload.Lost, 30),
			nil, nil, "was declared lost only 23.900s later"},
		"lost late after a fault": {heartbeats(0, 1), observations{observed(workload.Lost, 25)}, observed(workload.Lost, 30),
			nil, []workload.Span{{From: sec(2), To: sec(3)}}, ""},
		"stopped and up": {heartbeats(0, 1), nil, observed(workload.Up, 30), nil, nil,
			"sent no heartbeat from 1.100s to 30.000s"},
		"not yet due": {heartbeats(0, 1), nil, observed(workload.Up, 20), nil, nil, ""},
		"during a fault": {heartbeats(0, 1), nil, observed(workload.Up, 30), nil,
			[]workload.Span{{From: sec(5), To: sec(12)}}, ""},
		"during a short fault": {heartbeats(0, 1), nil, observed(workload.Up, 30), nil,
			[]workload.Span{{From: sec(5), To: sec(8)}}, "was not declared lost"},
		"unknown heartbeat": {append(heartbeats(0, 1), unsure(workload.Heartbeat, 2, 3)), nil, observed(workload.Up, 30), nil,
			nil, ""},
		"long after an unknown one": {append(heartbeats(0, 1), unsure(workload.Heartbeat, 2, 3)), nil,
			observed(workload.Up, 33),
			nil,
			nil, "from 13.000s"},
		"heartbeat never sent": {append(heartbeats(0, 1), request(workload.Heartbeat, 2, 3, workload.NotApplied)), nil,
			observed(workload.Up, 30), nil, nil, "from 1.100s"},
		"deregistered": {append(heartbeats(0, 1), unsure(workload.Deregister, 2, 3)), nil, observed(workload.Up, 30),
			nil, nil, ""},
		"lost and back": {append(heartbeats(0, 1), heartbeats(30, 31)...), observations{observed(workload.Lost, 12)},
			observed(workload.Up, 32), nil, nil, ""},
		"back without a recorded loss": {append(heartbeats(0, 1), heartbeats(30, 31)...), nil, observed(workload.Up, 32),
			nil, nil,
			"from 1.100s to 30.000s"},
		"lost at another time": {append(heartbeats(0, 1), heartbeats(30, 31)...),
			observations{observed(workload.Lost, 0.5), observed(workload.Lost, 31)}, observed(workload.Up,
				32), nil, nil, "from 1.100s to 30.000s"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, missed(tt.history(), record()), tt.want) })
	}
	h := fleetCase{requests: heartbeats(0)}.history()
	h.Fleet.Last = nil
	expect(t, missed(h, record()), "were not read at the end")
}

func TestIdentities(t *testing.T) {
	at := func(id, name string, c workload.Condition) workload.Observation {
		return workload.Observation{Holder: workload.Service, ID: id, Name: name, State: c}
	}
	register := func(id string, call float64, o workload.Outcome, fresh bool) workload.Request {
		t := request(workload.Register, call, call+0.1, o)
		t.ID, t.New = id, fresh
		return t
	}
	one := []workload.Request{register("x", 0, workload.OK, true), register("x", 10, workload.OK, false)}
	bye := func(o workload.Outcome) workload.Request {
		t := request(workload.Deregister, 20, 20.1, o)
		t.ID = "x"
		return t
	}
	for name, tt := range map[string]struct {
		requests []workload.Request
		last     []workload.Observation
		want     string
	}{
		"one id": {one, observations{at("x", "s", workload.Up)}, ""},
		"another id after a restart": {append(one[:1:1], register("y", 10, workload.OK, true)),
			observations{at("x", "s", workload.Lost), at("y", "s", workload.Up)}, "several ids: [x y]"},
		"lost id": {one, nil, "x (s) is not recorded"},
		"id that was never registered": {one, observations{at("x", "s", workload.Up), at("y", "s", workload.Up)},
			"was never registered"},
		"registration without an answer": {append(one[:2:2], register("", 5, workload.Unknown, true)),
			observations{at("x", "s", workload.Up), at("y", "s", workload.Lost)}, ""},
		"two ids for one unanswered registration": {append(one[:2:2], register("", 5, workload.Unknown, true)),
			observations{at("x", "s", workload.Up), at("y", "s", workload.Lost),
				at("z", "s", workload.Lost)}, "was never registered"},
		"deregistered": {append(one[:2:2], bye(workload.OK)), observations{at("x", "s", workload.Gone)}, ""},
		"deregistered but listed": {append(one[:2:2], bye(workload.OK)), observations{at("x", "s", workload.Lost)},
			"its deregistration was acknowledged"},
		"perhaps left, gone": {append(one[:2:2], bye(workload.Unknown)),
			observations{at("x", "s", workload.Gone)}, ""},
		"perhaps left, lost": {append(one[:2:2], bye(workload.Unknown)),
			observations{at("x", "s", workload.Lost)}, ""},
		"gone without deregistration": {one, observations{at("x", "s", workload.Gone)}, "but never deregistered"},
		"gone after a new registration": {append(one[:2:2], bye(workload.OK), register("x", 40, workload.OK, false)),
			observations{at("x", "s", workload.Gone)}, "but never deregistered"},
	} {
		t.Run(name, func(t *testing.T) {
			h := of()
			h.Fleet = &workload.Fleet{LeaseTimes: workload.ShortLeases(), Last: tt.last,
				Clients: []workload.LeaseClient{{Holder: workload.Service, Name: "s", Requests: tt.requests}}}
			expect(t, identities(h, record()), tt.want)
		})
	}
	// The final read may precede a request that was in flight, and precedes later ones.
	for _, tt := range []struct {
		at       float64
		requests []workload.Request
		last     []workload.Observation
		want     string
	}{
		{5, one, nil, "x (s) is not recorded"},
		{0.05, one, nil, ""},
		{20.05, append(one[:2:2], bye(workload.OK)), observations{at("x", "s", workload.Up)}, ""},
		{21, append(one[:2:2], bye(workload.OK)), observations{at("x", "s", workload.Up)},
			"its deregistration was acknowledged"},
		{30, append(one[:2:2], bye(workload.OK), register("x", 40, workload.OK, false)),
			observations{at("x", "s", workload.Gone)}, ""},
	} {
		h := of()
		h.Fleet = &workload.Fleet{LeaseTimes: workload.ShortLeases(), LastAt: sec(tt.at), Last: tt.last,
			Clients: []workload.LeaseClient{{Holder: workload.Service, Name: "s", Requests: tt.requests}}}
		expect(t, identities(h, record()), tt.want)
	}
	h := of()
	h.Fleet = &workload.Fleet{Last: observations{at("x", "s", workload.Up)},
		Clients: []workload.LeaseClient{{Name: "s", Requests: one}, {Name: "t", Requests: one}}}
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
	stopped := fleetCase{requests: append(heartbeats(0, 1), heartbeats(30, 31)...), last: observed(workload.Up, 32)}
	steady := fleetCase{requests: heartbeats(0, 1, 2, 3), last: observed(workload.Up, 4)}
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
	h := fleetCase{requests: append(heartbeats(0, 1), heartbeats(30, 31)...), last: observed(workload.Up, 32)}.history()
	h.Fleet.Clients[0].Holder = workload.Service
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
		requests []workload.Request
		noQuorum []workload.Span
		want     int
	}{
		"no heartbeats":        {nil, nil, 0},
		"only after the end":   {heartbeats(0, 5, 10), nil, 1},
		"one gap":              {heartbeats(0, 5, 12), nil, 2},
		"gap without a leader": {heartbeats(0, 5, 12), []workload.Span{{From: sec(6), To: sec(8)}}, 1},
		"unknown heartbeats": {append(heartbeats(0), append([]workload.Request{unsure(workload.Heartbeat, 3, 4)},
			heartbeats(7)...)...), nil, 2},
		"unknown registration, lost twice": {append(heartbeats(0), append([]workload.Request{unsure(workload.Register, 7, 8)},
			heartbeats(15)...)...), nil, 3},
		"only an unknown registration": {[]workload.Request{unsure(workload.Register, 0, 1)}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := alone(workload.Observation{}, tt.requests...)
			f.NoQuorum = tt.noQuorum
			if got := atMost(f, f.Clients[0], "a"); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestDeclared(t *testing.T) {
	pool := func(from, to int, k workload.Kind, o workload.Outcome, code string) workload.Op {
		return workload.Op{Kind: k, Pool: "p", Call: time.Duration(from), Return: time.Duration(to), Outcome: o, Code: code}
	}
	add, drop := pool(0, 10, workload.CreatePool, workload.OK, ""), pool(40, 50, workload.DeletePool, workload.OK, "")
	as := func(op workload.Op, o workload.Outcome, code string) workload.Op {
		op.Outcome, op.Code = o, code
		return op
	}
	see := pool(20, 30, workload.GetPool, workload.OK, "")
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
		"deleted and seen": {[]workload.Op{add, drop, pool(60, 70, workload.GetPool, workload.OK, "")}, false,
			"p was found after"},
		"lost before deleted":     {[]workload.Op{add, as(drop, workload.Refused, "NotFound")}, false, "p was lost before"},
		"perhaps deleted":         {[]workload.Op{add, as(drop, workload.Unknown, "")}, false, ""},
		"perhaps not deleted":     {[]workload.Op{add, as(drop, workload.Unknown, "")}, true, ""},
		"not deleted, and lost":   {[]workload.Op{add, as(drop, workload.NotApplied, "")}, false, "p is lost"},
		"perhaps created":         {[]workload.Op{as(add, workload.Unknown, "")}, true, ""},
		"perhaps not created":     {[]workload.Op{as(add, workload.Unknown, "")}, false, ""},
		"not created, but listed": {[]workload.Op{as(add, workload.NotApplied, "")}, true, "p is listed, although"},
		"refused":                 {[]workload.Op{as(add, workload.Refused, "InvalidArgument")}, false, "refused"},
		"read while added": {[]workload.Op{add, pool(5, 30, workload.GetPool, workload.Refused, "NotFound")},
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
	f := &workload.Fleet{LeaseTimes: workload.ShortLeases()}
	for _, kind := range []workload.Holder{workload.Machine, workload.Pool, workload.Service} {
		f.Clients = append(f.Clients,
			workload.LeaseClient{Holder: kind, Requests: heartbeats(0, 1, 2, 3), Stops: []workload.Stop{{How: workload.Killed}}})
	}
	expect(t, fleetTraffic(f), "no access token was valid at a peer")
	token := request(workload.Token, 0, 0, workload.OK)
	token.Peer = 2
	f.Clients[2].Requests = append([]workload.Request{token}, f.Clients[2].Requests...)
	expect(t, fleetTraffic(f), "")
	f.Clients[1].Stops, f.Clients[0].Requests = nil, nil
	expect(t, fleetTraffic(f), "no client of kind pool was killed")
	expect(t, fleetTraffic(f), "0 of 1 clients of kind machine sent heartbeats")
}
