package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// request is the body of POST /ops/{operation}.
type request struct {
	MachineID string          `json:"machine_id"`
	RunID     string          `json:"run_id,omitempty"`
	Step      string          `json:"step,omitempty"`
	Attempt   int32           `json:"attempt,omitempty"`
	Epoch     uint64          `json:"epoch,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`

	notAfter time.Time // from the header; zero if there is none
}

func (r request) op() providers.Op {
	return providers.Op{RunID: r.RunID, Step: r.Step, Attempt: r.Attempt, Epoch: r.Epoch}
}

// failure is the body of every response other than 200.
type failure struct {
	Class providers.Class `json:"class"`
	Error string          `json:"error"`
}

// settleHeader is how late effects can show, for a remote provider, as a Go duration.
const settleHeader = "Holdfast-Fake-Settle"

// notAfterHeader is the not-after time of an effect by the wall clock (RFC 3339), and epochHeader
// the epoch of its leader. The two clocks must agree to far less than half a second.
const (
	notAfterHeader = "Holdfast-Not-After"
	epochHeader    = "Holdfast-Epoch"
)

// readNotAfter returns the not-after time in a request's header, or zero.
func readNotAfter(h http.Header) (time.Time, error) {
	s := h.Get(notAfterHeader)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is %q: want a time like %q", notAfterHeader, s, time.RFC3339Nano)
	}
	return t, nil
}

// statusOf returns the HTTP status for a class of errors. classOf is its inverse, for a response
// without a body of ours.
func statusOf(c providers.Class) int {
	switch c {
	case providers.Auth:
		return http.StatusUnauthorized
	case providers.Unsupported:
		return http.StatusBadRequest
	case providers.Gone:
		return http.StatusGone
	case providers.Timeout:
		return http.StatusGatewayTimeout
	case providers.Late:
		return http.StatusPreconditionFailed
	default:
		return http.StatusServiceUnavailable
	}
}

func classOf(status int) providers.Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return providers.Auth
	case http.StatusGone:
		return providers.Gone
	case http.StatusGatewayTimeout:
		return providers.Timeout
	case http.StatusPreconditionFailed:
		return providers.Late
	case http.StatusServiceUnavailable,
		http.StatusTooManyRequests,
		http.StatusInternalServerError,
		http.StatusBadGateway:
		return providers.Transient
	default:
		return providers.Unsupported
	}
}

// The arguments of operations.
type (
	imageArgs   struct{ Spec providers.InstallSpec }
	tokenArgs   struct{ Token string }
	mediaArgs   struct{ URL string }
	lightArgs   struct{ On bool }
	clusterArgs struct{ ClusterRef string }
	commandArgs struct {
		Token   string
		Command providers.Command
	}
	outputArgs struct {
		Token  string
		Offset int64
	}
	networkArgs struct {
		Config   string
		Rollback int64 // nanoseconds
	}
	consoleArgs struct {
		Offset int64
		Data   []byte
	}
)

// joinAnswer and consoleAnswer are results without a type in package providers.
type joinAnswer struct {
	State  providers.WorkState
	Detail string
}

type consoleAnswer struct {
	Data []byte
	Next int64
}
