package access

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// exportBatch is the maximum number of events that an export reads from the state at once.
const exportBatch = 256

// Audit implements AuditService (docs/security.md). It only reads the audit trail; package
// fsm writes it when it applies commands.
type Audit struct {
	holdfastv1.UnimplementedAuditServiceServer
	*edge.Peer
}

// NewAudit returns the service of a peer.
func NewAudit(peer *edge.Peer) *Audit { return &Audit{Peer: peer} }

// ListAuditEvents lists events, newest first.
func (s *Audit) ListAuditEvents(
	ctx context.Context, r *holdfastv1.ListAuditEventsRequest,
) (*holdfastv1.ListAuditEventsResponse, error) {
	f, err := request.Filter(auditFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "audit", r.GetFilter())
	if err != nil {
		return nil, err
	}
	before, err := p.Sequence()
	if err != nil {
		return nil, err
	}
	rows := page.Keyed(v.AuditEvents(before), func(e *holdfastv1.AuditEvent) string {
		return strconv.FormatUint(e.GetSequence(), 10)
	})
	resp := &holdfastv1.ListAuditEventsResponse{}
	resp.Events, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(e *holdfastv1.AuditEvent) bool {
		return f.Match(e)
	})
	return resp, err
}

// ExportAuditEvents streams the audit events of one state, oldest first. It ends with the
// newest event at the start of the call. A start that is no longer kept is refused,
// because a gap would look like a broken hash chain.
func (s *Audit) ExportAuditEvents(
	r *holdfastv1.ExportAuditEventsRequest, stream grpc.ServerStreamingServer[holdfastv1.AuditEvent],
) error {
	ctx := stream.Context()
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	first, last, _ := v.Audit()
	from := r.GetFromSequence()
	if from != 0 && (from < first || from > last+1) {
		return &fsm.Error{
			Code: fsm.OutOfRange, Reason: fsm.ReasonCursorGone,
			Message: fmt.Sprintf(
				"audit event %d is not kept, only %d to %d: export without a number to get all of them",
				from, first, last),
		}
	}
	for at := max(from, first, 1) - 1; at < last; {
		if err := edge.Ended(ctx, s.Draining); err != nil {
			return err
		}
		events, err := v.AuditAfter(at, exportBatch)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := stream.Send(e); err != nil {
				return err
			}
			at = e.GetSequence()
		}
	}
	return nil
}

// auditFilter returns the fields that filters of audit events can use.
func auditFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.AuditEvent)(nil).ProtoReflect().Descriptor(),
		Hidden:  []string{"hash", "previous_hash"},
	}
}
