package providers

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// HealthReader reads what hardware says of its parts. It is a dear look: it may take dozens of
// requests to one BMC. It must never change anything.
type HealthReader interface {
	Health(ctx context.Context, m Machine) (Health, error)
}

// Health is what is wrong with a machine's hardware, as far as it can be told.
type Health struct {
	Problems []Problem // none: nothing is known to be wrong. The worst comes first
	Unread   []string  // parts that could not be read, and why: nothing is known of those
}

// OK reports that nothing is known to be wrong.
func (h Health) OK() bool { return len(h.Problems) == 0 }

// Kind is what sort of part a problem is about: the reason of the condition Degraded.
type Kind string

// The kinds of problems, the worst first.
const (
	DiskFailed    Kind = "DiskFailed" // or predicted to fail
	PowerSupply   Kind = "PowerSupply"
	Thermal       Kind = "Thermal" // too hot, or a fan
	MemoryFailed  Kind = "Memory"
	CPUFailed     Kind = "Processor"
	VoltageWrong  Kind = "Voltage"
	EventLogged   Kind = "EventLog" // a critical entry of the last day
	HealthUnnamed Kind = "Hardware" // the BMC says that something is wrong, and not what
)

// Problem is one part with something wrong with it.
type Problem struct {
	Kind Kind
	Text string // names the part, e.g. "disk 2 failed"
}

// Sort puts problems into one order, whatever the order in which the hardware has told them, and
// drops what was told twice.
func (h *Health) Sort() {
	order := []Kind{DiskFailed, PowerSupply, Thermal, MemoryFailed, CPUFailed, VoltageWrong, HealthUnnamed, EventLogged}
	slices.SortStableFunc(h.Problems, func(a, b Problem) int {
		if i, j := slices.Index(order, a.Kind), slices.Index(order, b.Kind); i != j {
			return i - j
		}
		return strings.Compare(a.Text, b.Text)
	})
	h.Problems = slices.Compact(h.Problems)
}

// NotAsked is the error of hardware that was not asked at all, for a reason on our side: nothing
// new is known of it.
type NotAsked struct {
	Reason string // CamelCase, e.g. NoSecretsKey
	Err    error
}

func (e *NotAsked) Error() string { return e.Err.Error() }

// ClusterNotRegistered is the reason for what is not known of a cluster that nobody has registered.
const ClusterNotRegistered = "ClusterNotRegistered"

// Unwrap returns the cause.
func (e *NotAsked) Unwrap() error { return e.Err }

// WhyNotAsked returns the reason of a NotAsked in an error; empty if the hardware was asked.
func WhyNotAsked(err error) string {
	var n *NotAsked
	if errors.As(err, &n) {
		return n.Reason
	}
	return ""
}
