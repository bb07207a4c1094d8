package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/providers"
)

// eraser is implemented by providers whose hosts can erase their own disks.
type eraser interface {
	providers.RemoteExecutor
	providers.Eraser
}

// erase makes the host erase its disks, and returns their number. It fails unless every
// disk is known to be erased.
func (a *Attempt) erase(ctx context.Context, host eraser) (int, error) {
	most := a.Config.StepDeadline
	if d, ok := ctx.Deadline(); ok {
		most = time.Until(d)
	}
	a.erases = true
	failed := a.command(ctx, host, "erase all disks", a.surely(func(ctx context.Context) error {
		return host.Erase(ctx, a.Op, a.Machine, most)
	}))
	if ctx.Err() != nil {
		a.kill(host) //nolint:contextcheck // the attempt's context has ended, the term's has not
		return 0, ctx.Err()
	}
	said, err := a.output(ctx, host)
	if failed != nil && (err != nil || said == "") {
		return 0, failed
	}
	if err != nil {
		return 0, err
	}
	report := providers.ReadEraseReport(said)
	evidence, bad := map[string]string{}, []string{}
	for _, d := range report.Disks {
		evidence["disk "+task.Clean(d.Name)] = task.Clean(d.Result())
		if !d.Erased {
			bad = append(bad, task.Clean(d.Name+": "+d.How))
		}
	}
	for _, d := range report.Left {
		evidence["disk "+task.Clean(d.Name)] = task.Clean(d.Result())
	}
	a.AddEvidence(evidence)
	switch {
	case len(bad) > 0:
		return 0, &Failure{fmt.Errorf("%d of %d disks are not erased: %s",
			len(bad), len(report.Disks), strings.Join(bad, "; "))}
	case failed != nil:
		return 0, failed
	case !report.Complete || len(report.Disks) == 0:
		return 0, &Failure{fmt.Errorf("the host did not report that all of its disks are erased: it reported %d",
			len(report.Disks))}
	}
	return len(report.Disks), nil
}

// maxReport bounds the bytes that are read of a report in a command's output.
const maxReport = 64 << 10

// output reads the standard output of the attempt's command from the host. The recorded
// output may be truncated, and may lack the part that was read before a takeover.
func (a *Attempt) output(ctx context.Context, exec providers.RemoteExecutor) (string, error) {
	var b strings.Builder
	err := a.Poll(ctx, answer(host, "result"), func(ctx context.Context) (bool, error) {
		b.Reset()
		for offset := int64(0); b.Len() < maxReport; {
			st, err := exec.CommandStatus(ctx, a.Machine, a.Op.Token(), offset)
			if err != nil {
				return false, err
			}
			for _, o := range st.Output {
				if o.Stream == "stdout" {
					b.Write(o.Data)
				}
			}
			if len(st.Output) == 0 {
				break
			}
			offset = st.Next
		}
		return true, nil
	})
	return b.String(), err
}
