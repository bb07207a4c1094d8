package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// waveFlags are the flags that turn run start into a wave.
type waveFlags struct {
	selector, id       string
	labels             string
	parallel, failures int
	detach             bool
}

func (w *waveFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.selector, "selector", "",
		"start a run on each machine that matches (AIP-160), e.g. 'pool = gpu AND phase = READY'")
	output.RegisterLabels(cmd, &w.labels)
	f.IntVar(&w.parallel, "max-parallel", 10, "with --selector: maximum number of active runs")
	f.IntVar(&w.failures, "max-failures", 0, "with --selector: number of failed runs after which no more start")
	f.StringVar(&w.id, "wave", "",
		"with --selector: id of the wave; if it exists, it is followed (default: generated and printed)")
	f.BoolVar(&w.detach, "detach", false, "with --selector: do not wait for the wave")
}

func (w *waveFlags) check(cmd *cobra.Command, args []string, req *holdfastv1.StartRunRequest) (err error) {
	w.selector, err = output.WithLabels(w.selector, w.labels)
	switch {
	case err != nil:
		return err
	case len(args) == 0 && w.selector == "":
		return app.Usagef("%s: MACHINE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
	case len(args) > 0 && w.selector != "":
		return app.Usagef("%s: give either MACHINE or --selector (-l)", cmd.CommandPath())
	case w.selector == "":
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

// machines returns the named machine, or those that match the selector.
func (w *waveFlags) machines(ctx context.Context, c *client.Client, args []string) ([]*holdfastv1.Machine, error) {
	if w.selector != "" {
		return listMachines(ctx, c, &output.Listing{Filter: w.selector})
	}
	m, err := getMachine(ctx, c, args[0])
	return []*holdfastv1.Machine{m}, err
}

// allowWave blocks until the operator has confirmed a wave that destroys data or interrupts
// machines in service.
func allowWave(ctx context.Context, a *app.App, c *client.Client, path string, ok prompt.Consent,
	req *holdfastv1.StartRunRequest, machines []*holdfastv1.Machine) error {
	if ok.Yes || len(machines) == 0 {
		return nil
	}
	plan, err := planOf(ctx, c, req)
	if err != nil || !asks(plan, req.GetParams(), machines...) {
		return err
	}
	return ok.Obtain(ctx, a, path, loss(plan, req.GetParams(), machines),
		prompt.Word(app.Mapped(machines, (*holdfastv1.Machine).GetMachineId)))
}

// timeUp reports whether the deadline of the context has passed, in contrast to the limit of
// one call. A call that cannot complete before the deadline ends a moment earlier.
func timeUp(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return limited && !errors.Is(ctx.Err(), context.Canceled) && time.Until(end) <= time.Second
}
