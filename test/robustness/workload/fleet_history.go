package workload

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Holder is the kind of a lease's holder.
type Holder string

// Holders of leases.
const (
	Machine Holder = "machine"
	Pool    Holder = "pool"
	Service Holder = "service"
)

// LeaseTimes are how long a lease lasts after a heartbeat.
type LeaseTimes struct {
	TTL time.Duration // it is never lost sooner
	Max time.Duration // it is lost by then, without faults
}

// Leases are the terms of all kinds of holders.
type Leases map[Holder]LeaseTimes

// RequestKind is the kind of a request of a client of a lease.
type RequestKind string

// Kinds of requests.
const (
	Register   RequestKind = "register"
	Heartbeat  RequestKind = "heartbeat" // a keepalive, a heartbeat, a ping, a report of a state
	Deregister RequestKind = "deregister"
	Token      RequestKind = "token" // the request of an access token
)

// Request is one request of a client of a lease to one peer, observed on the client's side. OK
// is any successful response, Refused a refusal, and NotApplied a request that never left.
// Everything else is Unknown.
type Request struct {
	Kind         RequestKind
	Peer         int
	Call, Return time.Duration // since History.Base
	Outcome      Outcome
	Status       int
	ID           string // of the holder: sent, or returned for a registration
	New          bool   // a registration without an id
	Why          string // the message of a failure, or the error
}

// Alive reports whether the request may have been a heartbeat.
func (t Request) Alive() bool { return t.Kind == Register || t.Kind == Heartbeat }

// End is how a client's process ended.
type End string

// Kinds of ends.
const (
	Killed End = "killed" // without a message
	Left   End = "left"   // it deregisters
	Stayed End = "stayed" // it ran until everything was settled
	Frozen End = "frozen" // not an end: it was stopped for a while
)

// Stop is one such end.
type Stop struct {
	How End
	At  time.Duration
	For time.Duration // of Frozen
}

// LeaseClient is the history of one client of a lease, over all its incarnations. Its name is its
// identity: an id file, a machine id.
type LeaseClient struct {
	Holder   Holder
	Name     string
	Process  bool // a real holdfast-agent
	Requests []Request
	Stops    []Stop
}

// Observation is a linearizable read of a holder: its state at some moment between Call and
// Return.
type Observation struct {
	Holder       Holder
	ID, Name     string // Name of a service is its service name
	State        Condition
	Call, Return time.Duration
}

// Condition is the recorded condition of a lease's holder.
type Condition string

// Conditions.
const (
	Up   Condition = "up"   // registered, or a later heartbeat
	Lost Condition = "lost" // expired, unavailable, missing in action
	Gone Condition = "left" // deregistered
)

// Span is a period of time.
type Span struct{ From, To time.Duration }

// Fleet is the history of the clients of leases.
type Fleet struct {
	LeaseTimes   Leases
	Clients      []LeaseClient
	Observations []Observation // of all losses, at every read, and the first of each other condition
	Last         []Observation // of all holders, after the stopped ones had time to be lost; nil if there was no read
	LastAt       time.Duration // when that read began; clients may register later. 0: after everything else
	NoQuorum     []Span        // fewer than a majority of the peers had a process: there could be no leader
	Disturbed    []Span        // something was broken, or reads failed or were slow; in the order of From
}

// Within returns how much of a period overlaps some spans, each of which is extended at its
// end.
func Within(spans []Span, from, to, after time.Duration) time.Duration {
	var sum, until time.Duration
	for _, s := range spans { // in the order of From
		a, b := max(s.From, from, until), min(s.To+after, to)
		if b > a {
			sum, until = sum+b-a, b
		}
	}
	return sum
}

// IDs returns the ids with which a life was registered, each once.
func (l LeaseClient) IDs() []string {
	ids := map[string]bool{}
	for _, t := range l.Requests {
		if t.Kind == Register && t.Outcome == OK {
			ids[t.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Count returns the number of requests of a kind with an outcome.
func (f *Fleet) Count(k RequestKind, o Outcome) int {
	n := 0
	for _, l := range f.Clients {
		for _, t := range l.Requests {
			if t.Kind == k && t.Outcome == o {
				n++
			}
		}
	}
	return n
}

// Ends returns how often clients ended in a way.
func (f *Fleet) Ends(how End) int {
	n := 0
	for _, l := range f.Clients {
		for _, s := range l.Stops {
			if s.How == how {
				n++
			}
		}
	}
	return n
}

// String returns a summary.
func (f *Fleet) String() string {
	lost := map[string]bool{}
	for _, s := range f.Last {
		if s.State == Lost {
			lost[s.ID] = true
		}
	}
	return fmt.Sprintf("%d clients of leases: %d registrations and %d heartbeats acknowledged, "+
		"%d deregistrations; %d killed, %d left, %d frozen; %d lost at the end",
		len(f.Clients), f.Count(Register, OK), f.Count(Heartbeat, OK), f.Count(Deregister, OK),
		f.Ends(Killed), f.Ends(Left), f.Ends(Frozen), len(lost))
}
