package crowd

import "time"

// renewal is the outcome of the keepalives of one agent that reconnects.
type renewal struct {
	took     time.Duration // from its first try; zero: never renewed
	at       time.Duration // time of its last try, since all agents began
	failed   int           // tries
	err      error         // of the last failed try
	interval time.Duration // to the next keepalive, assigned by the peer
}

// Renewals are those of all agents.
type Renewals []renewal

// Done returns the time until the last agent was renewed, or gave up.
func (c Renewals) Done() time.Duration {
	var last time.Duration
	for _, r := range c {
		last = max(last, r.at)
	}
	return last
}

// Renewed returns the number of renewed agents.
func (c Renewals) Renewed() int { return len(c.Latencies()) }

// Latencies returns the times from the first try to the renewal, of renewed agents.
func (c Renewals) Latencies() []time.Duration {
	var all []time.Duration
	for _, r := range c {
		if r.took > 0 {
			all = append(all, r.took)
		}
	}
	return all
}

// Failed returns the number of failed tries.
func (c Renewals) Failed() int {
	n := 0
	for _, r := range c {
		n += r.failed
	}
	return n
}

// Err returns the error of a failed try, or nil if none has failed.
func (c Renewals) Err() error {
	for _, r := range c {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// Spread returns the least and the greatest interval that the peers assigned, and the number of
// different ones.
func (c Renewals) Spread() (low, high time.Duration, distinct int) {
	seen := map[time.Duration]bool{}
	for _, r := range c {
		if r.took == 0 {
			continue
		}
		if len(seen) == 0 {
			low, high = r.interval, r.interval
		}
		seen[r.interval] = true
		low, high = min(low, r.interval), max(high, r.interval)
	}
	return low, high, len(seen)
}
