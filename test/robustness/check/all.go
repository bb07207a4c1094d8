package check

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// All reads the final record of a settled cluster, and returns all contradictions to the
// history or the promises. Aids such as the picture of a history that is not linearizable
// are written to reportDir, which is created if missing.
func All(ctx context.Context, h *workload.History, t workload.Target, reportDir string) []error {
	return find(ctx, h, t, reportDir, checks())
}

// Truth is like All for a history of a few deliberate calls: it does not require an amount
// of traffic.
func Truth(ctx context.Context, h *workload.History, t workload.Target, reportDir string) []error {
	return find(ctx, h, t, reportDir, checks()[1:])
}

// Order is the part of All that needs no final record: no response shows older data than an
// earlier one.
func Order(h *workload.History) []error { return order(h, &final.Record{}) }

func find(ctx context.Context, h *workload.History, t workload.Target, reportDir string, checks []check) []error {
	if err := os.MkdirAll(reportDir, 0o750); err != nil {
		return []error{fmt.Errorf("create the report directory: %w", err)}
	}
	f, err := final.Read(ctx, h, t)
	if err != nil {
		return []error{fmt.Errorf("read the final record: %w", err)}
	}
	if err := dump(h.Fleet, reportDir); err != nil {
		return []error{err}
	}
	var all []error
	for i, c := range checks {
		if i == len(checks)-1 && len(all) > 0 {
			// There is a violation already, and then the search may take very long.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
		}
		for _, err := range c.find(ctx, h, f, reportDir) {
			all = append(all, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return all
}

// dump writes the history of the clients of leases, for the analysis of a failure.
func dump(f *workload.Fleet, dir string) error {
	if f == nil {
		return nil
	}
	b, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "fleet.json"), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the history of the fleet: %w", err)
	}
	return nil
}

type check struct {
	name string
	find finder
}

type finder func(ctx context.Context, h *workload.History, f *final.Record, dir string) []error

func checks() []check {
	pure := func(find func(*workload.History, *final.Record) []error) finder {
		return func(_ context.Context, h *workload.History, f *final.Record, _ string) []error { return find(h, f) }
	}
	return []check{ // traffic is first: see Truth; slow checks are last
		{"traffic", pure(traffic)},
		{"order", pure(order)},
		{"revisions", pure(revisions)},
		{"requests", pure(requests)},
		{"oneactive", pure(oneActive)},
		{"acknowledged", pure(acknowledged)},
		{"effects", pure(effects)},
		{"machines", pure(hardware)},
		{"presses", pure(presses)},
		{"atrest", pure(settled)},
		{"sessions", pure(sessions)},
		{"starts", pure(starts)},
		{"watches", pure(watches)},
		{"tails", pure(tails)},
		{"output", pure(output)},
		{"states", pure(states)},
		{"declared", pure(declared)},
		{"early", pure(early)},
		{"missed", pure(missed)},
		{"identities", pure(identities)},
		{"losses", pure(losses)},
		{"linearizable", linearizable},
	}
}

// firstErrors keeps a report readable: the first failures are the most useful ones.
func firstErrors(errs []error) []error {
	const most = 10
	if len(errs) <= most {
		return errs
	}
	return append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
}
