package check

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// requests checks that a request id names one run forever (docs/reliability.md), in all
// responses of all peers and in the record at each peer, and that the run is the requested
// one.
func requests(h *workload.History, f *final.Record) []error {
	type key struct{ machine, request string }
	runs := map[key]workload.RunSeen{}
	var errs []error
	see := func(where string, r workload.RunSeen) {
		k := key{r.Machine, r.Request}
		first, ok := runs[k]
		if !ok {
			runs[k] = r
			return
		}
		if first.ID != r.ID || first.Plan != r.Plan {
			errs = append(errs, fmt.Errorf("request %q of machine %s names run %s (%s), and at %s run %s (%s)",
				k.request, k.machine, first.ID, first.Plan, where, r.ID, r.Plan))
		}
	}
	for _, op := range h.Ops {
		if op.Got == nil {
			continue
		}
		if op.Kind == workload.StartRun &&
			(op.Got.Machine != op.Machine || op.Got.Request != op.Request || op.Got.Plan != op.Plan) {
			errs = append(errs, fmt.Errorf("%s was answered with %+v", words(op), *op.Got))
		}
		if op.Run != "" && op.Got.ID != op.Run {
			errs = append(errs, fmt.Errorf("%s was answered with run %s", words(op), op.Got.ID))
		}
		see(fmt.Sprintf("peer %d, in the answer to %s", op.Peer, op.Kind), *op.Got)
	}
	for i, all := range f.ByPeer {
		for _, r := range all {
			see(fmt.Sprintf("peer %d in the record", i), r)
		}
	}
	// A refusal that names a run for a request id is a response too.
	for _, op := range h.Ops {
		if op.Reason != "REQUEST_CONFLICT" {
			continue
		}
		if r, ok := runs[key{op.Machine, op.Request}]; !ok || r.ID != op.Named || r.Plan == op.Plan {
			errs = append(errs, fmt.Errorf("%s was refused for run %q (%s); the request names %q of plan %s",
				words(op), op.Named, op.Message, r.ID, r.Plan))
		}
	}
	return firstErrors(errs)
}

// words returns the description of a call in a report.
func words(op workload.Op) string {
	s := fmt.Sprintf("%s of client %d at peer %d [%.3fs, %.3fs]", op.Kind, op.Client, op.Peer, op.Call.Seconds(),
		op.Return.Seconds())
	for _, v := range []struct{ name, value string }{
		{"machine", op.Machine}, {"request", op.Request}, {"plan", op.Plan}, {"run", op.Run},
		{"value", op.Value},
	} {
		if v.value != "" {
			s += " " + v.name + "=" + v.value
		}
	}
	return s + ": " + string(op.Outcome)
}
