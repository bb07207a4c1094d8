package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Access makes and revokes tokens.
func (c *Client) Access() holdfastv1.AccessServiceClient {
	return holdfastv1.NewAccessServiceClient(c.peers)
}

// Audit reads the audit trail. Its export ends with the peer that serves it: use ExportAudit, which
// goes on with another.
func (c *Client) Audit() holdfastv1.AuditServiceClient {
	return holdfastv1.NewAuditServiceClient(c.peers)
}

// ExportAudit calls f for each audit event from a sequence number on (0: from the oldest that is
// kept), oldest first, and returns nil after the newest. When a peer fails it goes on with another
// one: no event is left out and none comes twice. An error of f ends it and is returned.
func (c *Client) ExportAudit(ctx context.Context, from uint64, f func(*holdfastv1.AuditEvent) error) error {
	req := &holdfastv1.ExportAuditEventsRequest{FromSequence: from}
	return c.peers.follow(ctx, holdfastv1.AuditService_ExportAuditEvents_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			return auditPart(ctx, cc, req, f)
		})
}

// auditPart moves req.FromSequence on as it delivers.
func auditPart(ctx context.Context, cc grpc.ClientConnInterface, req *holdfastv1.ExportAuditEventsRequest,
	f func(*holdfastv1.AuditEvent) error) (received bool, err error) {
	stream, err := holdfastv1.NewAuditServiceClient(cc).ExportAuditEvents(ctx, req)
	if err != nil {
		return false, err
	}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return received, errEnded
		}
		if err != nil {
			return received, err
		}
		received = true
		if err := f(e); err != nil {
			return true, callerError{err}
		}
		req.FromSequence = e.GetSequence() + 1
	}
}
