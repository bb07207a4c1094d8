package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// WaveFlags are the flags that turn run start into a wave.
type WaveFlags struct {
	Selector, ID       string
	labels             string
	parallel, failures int
	Detach             bool
}

// Register adds the flags.
func (w *WaveFlags) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.Selector, "selector", "",
		"start a run on each machine that matches (AIP-160), e.g. 'pool = gpu AND phase = READY'")
	output.RegisterLabels(cmd, &w.labels)
	f.IntVar(&w.parallel, "max-parallel", 10, "with --selector: maximum number of active runs")
	f.IntVar(&w.failures, "max-failures", 0, "with --selector: number of failed runs after which no more start")
	f.StringVar(&w.ID, "wave", "",
		"with --selector: id of the wave; if it exists, it is followed (default: generated and printed)")
	f.BoolVar(&w.Detach, "detach", false, "with --selector: do not wait for the wave")
}

// Check returns an error if the flags and arguments do not belong together.
func (w *WaveFlags) Check(cmd *cobra.Command, args []string, req *holdfastv1.StartRunRequest) (err error) {
	w.Selector, err = output.WithLabels(w.Selector, w.labels)
	switch {
	case err != nil:
		return err
	case len(args) == 0 && w.Selector == "":
		return app.Usagef("%s: MACHINE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
	case len(args) > 0 && w.Selector != "":
		return app.Usagef("%s: give either MACHINE or --selector (-l)", cmd.CommandPath())
	case w.Selector == "":
		for _, name := range []string{"max-parallel", "max-failures", "wave", "detach"} {
			if cmd.Flags().Changed(name) {
				return app.Usagef("--%s: only for a wave: pass --selector", name)
			}
		}
		return nil
	case req.GetRequestId() != "":
		return app.Usagef("--request-id: the runs of a wave have its id: give --wave")
	case w.parallel < 1:
		return app.Usagef("--max-parallel: %d: give 1 or more", w.parallel)
	case w.failures < 0:
		return app.Usagef("--max-failures: %d: give 0 or more", w.failures)
	}
	return nil
}

// Machines returns the named machine, or those that match the selector.
func (w *WaveFlags) Machines(ctx context.Context, c *client.Client, args []string) ([]*holdfastv1.Machine, error) {
	if w.Selector != "" {
		return kinds.ListMachines(ctx, c, &output.Listing{Filter: w.Selector})
	}
	m, err := kinds.GetMachine(ctx, c, args[0])
	return []*holdfastv1.Machine{m}, err
}

// AllowWave blocks until the operator has confirmed a wave that destroys data or interrupts
// machines in service.
func AllowWave(ctx context.Context, a *app.App, c *client.Client, path string, ok prompt.Consent,
	req *holdfastv1.StartRunRequest, machines []*holdfastv1.Machine) error {
	if ok.Yes || len(machines) == 0 {
		return nil
	}
	plan, err := PlanOf(ctx, c, req)
	if err != nil || !Asks(plan, req.GetParams(), machines...) {
		return err
	}
	return ok.Obtain(ctx, a, path, loss(plan, req.GetParams(), machines),
		prompt.Word(app.Mapped(machines, (*holdfastv1.Machine).GetMachineId)))
}

// TimeUp reports whether the deadline of the context has passed, in contrast to the limit of
// one call. A call that cannot complete before the deadline ends a moment earlier.
func TimeUp(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return limited && !errors.Is(ctx.Err(), context.Canceled) && time.Until(end) <= time.Second
}

// Request returns the request for a wave on machines.
func (w *WaveFlags) Request(
	run *holdfastv1.StartRunRequest, machines []*holdfastv1.Machine,
) *holdfastv1.StartWaveRequest {
	req := &holdfastv1.StartWaveRequest{
		RequestId: cmp.Or(w.ID, NewWaveID()), Filter: w.Selector, Type: run.GetType(), PlanId: run.GetPlanId(),
		Params: run.GetParams(), MaxParallel: int32(w.parallel), MaxFailures: int32(w.failures),
		MachineIds: app.Mapped(machines, (*holdfastv1.Machine).GetMachineId),
	}
	slices.SortFunc(req.GetMachineIds(), fields.Natural)
	return req
}

// NewWaveID returns a generated id of a wave, which people type.
func NewWaveID() string {
	id := uuid.New()
	return fmt.Sprintf("wave-%x", id[:8])
}
