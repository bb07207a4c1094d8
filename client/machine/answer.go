package machine

import (
	"encoding/json"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// codeNotFound is the error code of a server that does not know the machine, or not any
// more.
const codeNotFound = "machine_not_found"

// timing is the timing requested by the server. Zero means that it set none.
type timing struct {
	ttl  time.Duration
	next time.Duration
}

// readTiming returns the parts of a response that it understands. A success with an invalid
// body is still a success.
func readTiming(body []byte) timing {
	var outer struct {
		MachineState    json.RawMessage `json:"machine_state"`
		NextKeepaliveMs json.RawMessage `json:"next_keepalive_ms"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return timing{}
	}
	var members struct {
		TTLSeconds      json.RawMessage `json:"ttl_seconds"`
		NextKeepaliveMs json.RawMessage `json:"next_keepalive_ms"`
	}
	_ = json.Unmarshal(outer.MachineState, &members)
	t := timing{
		ttl:  rest.Duration(members.TTLSeconds, time.Second),
		next: rest.Duration(outer.NextKeepaliveMs, time.Millisecond),
	}
	if t.next == 0 {
		t.next = rest.Duration(members.NextKeepaliveMs, time.Millisecond)
	}
	return t
}

// enrolledAs returns the id of the token that a registration has enrolled the machine with,
// or "".
func enrolledAs(body []byte) string {
	var in struct {
		MachineState struct {
			TokenID string `json:"token_id"`
		} `json:"machine_state"`
	}
	if json.Unmarshal(body, &in) != nil {
		return ""
	}
	return in.MachineState.TokenID
}

// interval returns the time between keepalives: the configured one, the one requested by
// the server, or a fifth of the TTL. It is at most a third of the TTL, so that two
// keepalives may fail.
func (t timing) interval(configured time.Duration) time.Duration {
	d := DefaultInterval
	switch {
	case configured > 0:
		d = configured
	case t.next > 0:
		d = t.next
	case t.ttl > 0:
		d = t.ttl / 5
	}
	if t.ttl > 0 {
		d = min(d, t.ttl/3)
	}
	return max(d, minInterval)
}

// forgotten reports whether the machine must register again. The specification sends this
// code with status 500, so only the code counts.
func forgotten(a *rest.Answer) bool {
	var body struct {
		ErrorCode string `json:"error_code"`
	}
	return !a.OK() && json.Unmarshal(a.Body, &body) == nil && body.ErrorCode == codeNotFound
}
