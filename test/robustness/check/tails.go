package check

import (
	"bytes"
	"fmt"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// tails checks that each log, read in pieces from many peers, is exactly the log that every
// peer has at the end.
func tails(h *workload.History, f *final.Record) []error {
	var errs []error
	for _, t := range h.Tails {
		for _, s := range t.Trouble {
			errs = append(errs, fmt.Errorf("log of run %s: %s", t.Run, s))
		}
		if !t.Done {
			errs = append(errs, fmt.Errorf("log of run %s was not read to its end", t.Run))
			continue
		}
		for peer, log := range f.Logs[t.Run] {
			if !bytes.Equal(log, t.Data) {
				errs = append(errs,
					fmt.Errorf("log of run %s: %d bytes were read in %d streams, peer %d has %d: they differ", t.Run,
						len(t.Data), t.Sessions, peer, len(log)))
			}
		}
		if len(f.Logs[t.Run]) == 0 {
			errs = append(errs, fmt.Errorf("log of run %s is lost", t.Run))
		}
	}
	return firstErrors(errs)
}
