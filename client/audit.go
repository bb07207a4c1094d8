package client

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Access returns the service that creates and revokes tokens.
func (c *Client) Access() holdfastv1.AccessServiceClient {
	return holdfastv1.NewAccessServiceClient(c.peers)
}

// Sessions returns the service that lists and ends the sessions of people.
func (c *Client) Sessions() holdfastv1.SessionServiceClient {
	return holdfastv1.NewSessionServiceClient(c.peers)
}

// Audit returns the service that reads the audit trail. Its export ends when the serving
// peer fails. ExportAudit continues with another peer.
func (c *Client) Audit() holdfastv1.AuditServiceClient {
	return holdfastv1.NewAuditServiceClient(c.peers)
}

// ExportAudit calls f for each audit event from a sequence number on, oldest first, and
// returns nil after the newest. Zero starts at the oldest event that is kept. If a peer
// fails, the export continues with another one. No event is lost or delivered twice. If f
// returns an error, ExportAudit returns it.
func (c *Client) ExportAudit(
	ctx context.Context, from uint64, f func(*holdfastv1.AuditEvent) error,
) error {
	req := &holdfastv1.ExportAuditEventsRequest{FromSequence: from}
	return c.peers.follow(ctx, holdfastv1.AuditService_ExportAuditEvents_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			return auditPart(ctx, cc, req, f)
		})
}

// auditPart reads from one peer and advances req.FromSequence past each delivered event.
func auditPart(ctx context.Context, cc grpc.ClientConnInterface, req *holdfastv1.ExportAuditEventsRequest,
	f func(*holdfastv1.AuditEvent) error) (bool, error) {
	stream, err := holdfastv1.NewAuditServiceClient(cc).ExportAuditEvents(ctx, req)
	return finite(receive(stream, err, func(e *holdfastv1.AuditEvent) error {
		if err := f(e); err != nil {
			return err
		}
		req.FromSequence = e.GetSequence() + 1
		return nil
	}))
}
