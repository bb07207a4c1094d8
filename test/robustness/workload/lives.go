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

// Terms are how long a lease lasts after a heartbeat.
type Terms struct {
	TTL  time.Duration // it is never lost sooner
	Most time.Duration // it is lost by then, without faults
}

// Leases are the terms of all kinds of holders.
type Leases map[Holder]Terms

// TripKind is the kind of a request of a client of a lease.
type TripKind string

// Kinds of trips.
const (
	Register TripKind = "register"
	Beat     TripKind = "beat"     // a keepalive, a heartbeat, a ping, a report of a state
	Farewell TripKind = "farewell" // a deregistration
	Token    TripKind = "token"    // the request of an access token
)

// Trip is one request of a client of a lease to one peer, observed on the client's side. OK
// is any successful response, Refused a refusal, and NotApplied a request that never left.
// Everything else is Unknown.
type Trip struct {
	Kind         TripKind
	Peer         int
	Call, Return time.Duration // since History.Base
	Outcome      Outcome
	Status       int
	ID           string // of the holder: sent, or returned for a registration
	New          bool   // a registration without an id
	Why          string // the message of a failure, or the error
}

// Alive reports whether the trip may have been a heartbeat.
func (t Trip) Alive() bool { return t.Kind == Register || t.Kind == Beat }

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

// Life is the history of one client of a lease, over all its incarnations. Its name is its
// identity: an id file, a machine id.
type Life struct {
	Holder  Holder
	Name    string
	Process bool // a real holdfast-agent
	Trips   []Trip
	Stops   []Stop
}

// Sight is a linearizable read of a holder: its state at some moment between Call and
// Return.
type Sight struct {
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
	Terms  Leases
	Lives  []Life
	Sights []Sight       // of all losses, at every read, and the first of each other condition
	Last   []Sight       // of all holders, after the stopped ones had time to be lost; nil if there was no read
	LastAt time.Duration // when that read began; clients may register later. 0: after everything else
	Deaf   []Span        // fewer than a majority of the peers had a process: there could be no leader
	Unrest []Span        // something was broken, or reads failed or were slow; in the order of From
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
func (l Life) IDs() []string {
	ids := map[string]bool{}
	for _, t := range l.Trips {
		if t.Kind == Register && t.Outcome == OK {
			ids[t.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Count returns the number of trips of a kind with an outcome.
func (f *Fleet) Count(k TripKind, o Outcome) int {
	n := 0
	for _, l := range f.Lives {
		for _, t := range l.Trips {
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
	for _, l := range f.Lives {
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
		len(f.Lives), f.Count(Register, OK), f.Count(Beat, OK), f.Count(Farewell, OK),
		f.Ends(Killed), f.Ends(Left), f.Ends(Frozen), len(lost))
}
