package workload

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Holder is what a lease is for.
type Holder string

// The holders of leases.
const (
	Machine Holder = "machine"
	Pool    Holder = "pool"
	Service Holder = "service"
)

// Terms are how long a lease lasts after a heartbeat.
type Terms struct {
	TTL  time.Duration // it is never lost sooner
	Most time.Duration // it is lost by then, when nothing is broken
}

// Leases are the terms of all kinds of holders.
type Leases map[Holder]Terms

// TripKind is what a client of a lease asks a peer for.
type TripKind string

// The kinds of trips.
const (
	Register TripKind = "register"
	Beat     TripKind = "beat"     // a keepalive, a heartbeat, a ping, a report of a state
	Farewell TripKind = "farewell" // a deregistration
	Token    TripKind = "token"    // an access token is made
)

// Trip is one request of a client of a lease to one peer, seen from the client's side of the wire.
// OK is any answer of success, Refused one that says no, NotApplied one that never left; everything
// else is Unknown.
type Trip struct {
	Kind         TripKind
	Peer         int
	Call, Return time.Duration // since History.Base
	Outcome      Outcome
	Status       int
	ID           string // of the holder: what was sent, or what was answered to a registration
	New          bool   // a registration that named no id
	Why          string // what was said instead of a success, or the error
}

// Alive reports whether the trip may have been a heartbeat.
func (t Trip) Alive() bool { return t.Kind == Register || t.Kind == Beat }

// End is how a client's process came to its end.
type End string

// The ends.
const (
	Killed End = "killed" // it says nothing
	Left   End = "left"   // it deregisters
	Stayed End = "stayed" // it was there until everything was settled
	Frozen End = "frozen" // not an end: it stood still for a while
)

// Stop is one such end.
type Stop struct {
	How End
	At  time.Duration
	For time.Duration // of Frozen
}

// Life is all that one client of a lease did, over all its incarnations. Its name is its identity:
// an id file, a machine id.
type Life struct {
	Holder  Holder
	Name    string
	Process bool // a real holdfast-agent
	Trips   []Trip
	Stops   []Stop
}

// Sight is a linearizable look at a holder: its state at some moment between Call and Return.
type Sight struct {
	Holder       Holder
	ID, Name     string // Name of a service is its service name
	State        Condition
	Call, Return time.Duration
}

// Condition is what is recorded of a lease's holder.
type Condition string

// The conditions.
const (
	Up   Condition = "up"   // registered, or heard of since
	Lost Condition = "lost" // expired, unavailable, missing in action
	Gone Condition = "left" // deregistered
)

// Span is a piece of time.
type Span struct{ From, To time.Duration }

// Fleet is what is known of the clients of leases.
type Fleet struct {
	Terms  Leases
	Lives  []Life
	Sights []Sight // of all that was lost, whenever somebody looked, and the first of each other condition
	Last   []Sight // of all holders, when all that was stopped had its time; nil if nobody looked
	Deaf   []Span  // fewer than a majority of the peers had a process: no leader could hear
	Unrest []Span  // something was broken, or reads failed or were slow; in the order of From
}

// Within returns how much of a piece of time lies in some spans, each of which is so much longer at
// its end.
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

// IDs returns the ids that a life was told that it is registered under, each once.
func (l Life) IDs() []string {
	ids := map[string]bool{}
	for _, t := range l.Trips {
		if t.Kind == Register && t.Outcome == OK {
			ids[t.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Count counts the trips of a kind with an outcome, and how often clients came to an end.
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

// Ends counts how often clients came to an end.
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

// String sums up for people.
func (f *Fleet) String() string {
	lost := map[string]bool{}
	for _, s := range f.Last {
		if s.State == Lost {
			lost[s.ID] = true
		}
	}
	return fmt.Sprintf("%d clients of leases: %d registrations and %d heartbeats acknowledged, %d farewells; %d killed, %d left, %d frozen; %d lost at the end",
		len(f.Lives), f.Count(Register, OK), f.Count(Beat, OK), f.Count(Farewell, OK), f.Ends(Killed), f.Ends(Left), f.Ends(Frozen), len(lost))
}
