package fleet

import (
	"context"
	"strconv"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// ListMachineHistory lists the history of a machine, newest first. The history is kept
// after the machine is deleted.
func (s *Machines) ListMachineHistory(
	ctx context.Context, r *holdfastv1.ListMachineHistoryRequest,
) (*holdfastv1.ListMachineHistoryResponse, error) {
	id := r.GetMachineId()
	if err := request.Required("machine_id", id); err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "history", id)
	if err != nil {
		return nil, err
	}
	before, err := p.Sequence()
	if err != nil {
		return nil, err
	}
	_, exists := scope.Machine(ctx, v, id)
	if !exists && auth.Scoped(auth.From(ctx)) {
		return nil, request.NotFound("MACHINE_NOT_FOUND", "machine", id)
	}
	rows := page.Keyed(v.History(id, before), func(e *holdfastv1.HistoryEntry) string {
		return strconv.FormatUint(e.GetSequence(), 10)
	})
	resp := &holdfastv1.ListMachineHistoryResponse{}
	who := auth.From(ctx)
	resp.Entries, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(e *holdfastv1.HistoryEntry) bool {
		return scope.SeesChange(who, e)
	})
	if err != nil {
		return nil, err
	}
	if !exists && len(resp.GetEntries()) == 0 && p.After == "" {
		return nil, request.NotFound("MACHINE_NOT_FOUND", "machine", id)
	}
	return resp, nil
}
