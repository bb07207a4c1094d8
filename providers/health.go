package providers

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// HealthReader reads the health of a machine's parts. A call is expensive: it can cost one BMC
// dozens of requests. It must never change anything.
type HealthReader interface {
	Health(ctx context.Context, m Machine) (Health, error)
}

// Health lists the known problems of a machine's hardware.
type Health struct {
	Problems []Problem // the worst first; empty if no problem is known
	Unread   []string  // parts of unknown health, each with the reason
}

// OK reports whether no problem is known.
func (h Health) OK() bool { return len(h.Problems) == 0 }

// Kind is the kind of part that a problem affects. It is the reason of the condition Degraded.
type Kind string

// The kinds of problems, the worst first.
const (
	DiskFailed    Kind = "DiskFailed" // or predicted to fail
	PowerSupply   Kind = "PowerSupply"
	Thermal       Kind = "Thermal" // too hot, or a fan
	MemoryFailed  Kind = "Memory"
	CPUFailed     Kind = "Processor"
	GPUFailed     Kind = "GPU" // or another accelerator
	VoltageWrong  Kind = "Voltage"
	EventLogged   Kind = "EventLog" // a critical entry of the last day
	HealthUnnamed Kind = "Hardware" // the BMC reports a problem without naming the part
)

// Problem is a problem of one part.
type Problem struct {
	Kind Kind
	Text string // names the part, e.g. "disk 2 failed"
}

// Sort orders the problems independently of the order in which the hardware reported them, and
// drops duplicates.
func (h *Health) Sort() {
	order := []Kind{
		DiskFailed, PowerSupply, Thermal, MemoryFailed, CPUFailed, GPUFailed, VoltageWrong, HealthUnnamed, EventLogged,
	}
	slices.SortStableFunc(h.Problems, func(a, b Problem) int {
		if i, j := slices.Index(order, a.Kind), slices.Index(order, b.Kind); i != j {
			return i - j
		}
		return strings.Compare(a.Text, b.Text)
	})
	h.Problems = slices.Compact(h.Problems)
}

// NotAsked is returned if the hardware was not contacted, for a reason on our side. Earlier
// observations remain valid.
type NotAsked struct {
	Reason string // CamelCase, e.g. NoSecretsKey
	Err    error
}

func (e *NotAsked) Error() string { return e.Err.Error() }

// ClusterNotRegistered is the reason of a NotAsked for a cluster that is not registered.
const ClusterNotRegistered = "ClusterNotRegistered"

// Unwrap returns the cause.
func (e *NotAsked) Unwrap() error { return e.Err }

// WhyNotAsked returns the reason of the NotAsked in err, or "" if the hardware was contacted.
func WhyNotAsked(err error) string {
	if n, ok := errors.AsType[*NotAsked](err); ok {
		return n.Reason
	}
	return ""
}
