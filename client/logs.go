package client

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// FollowLogs calls f for each chunk of a run's log from the given byte on. It returns nil
// when the run has ended and all of its log is delivered. If a peer fails, FollowLogs
// continues with another one at the next byte: none is lost or delivered twice. If f
// returns an error, FollowLogs returns it. If the server no longer keeps the log's
// beginning, the first chunk has a larger offset.
func (c *Client) FollowLogs(ctx context.Context, runID string, offset int64, f func(*holdfastv1.LogChunk) error) error {
	return c.logs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: runID, Offset: offset}, f)
}

// ReadLogs is like FollowLogs but returns at the current end of the log.
func (c *Client) ReadLogs(ctx context.Context, runID string, offset int64, f func(*holdfastv1.LogChunk) error) error {
	return c.logs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: runID, Offset: offset, NoFollow: true}, f)
}

func (c *Client) logs(
	ctx context.Context, req *holdfastv1.StreamRunLogsRequest, f func(*holdfastv1.LogChunk) error,
) error {
	return c.peers.follow(ctx, holdfastv1.RunService_StreamRunLogs_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			return logPart(ctx, cc, req, f)
		})
}

// logPart reads from one peer and advances req.Offset past each delivered chunk.
func logPart(ctx context.Context, cc grpc.ClientConnInterface, req *holdfastv1.StreamRunLogsRequest,
	f func(*holdfastv1.LogChunk) error) (bool, error) {
	stream, err := holdfastv1.NewRunServiceClient(cc).StreamRunLogs(ctx, req)
	return finite(receive(stream, err, func(chunk *holdfastv1.LogChunk) error {
		if !cut(chunk, req.GetOffset()) {
			return nil
		}
		if err := f(chunk); err != nil {
			return err
		}
		req.Offset = chunk.GetOffset() + int64(len(chunk.GetData()))
		return nil
	}))
}

// cut removes the part of the chunk before the offset and reports whether anything is left.
// It keeps a chunk without data that marks a truncated log.
func cut(chunk *holdfastv1.LogChunk, offset int64) bool {
	if chunk.GetTruncated() && len(chunk.GetData()) == 0 {
		return chunk.GetOffset() >= offset
	}
	before := offset - chunk.GetOffset()
	switch {
	case before <= 0:
		return len(chunk.GetData()) > 0
	case before >= int64(len(chunk.GetData())):
		return false
	}
	chunk.Data = chunk.GetData()[before:]
	chunk.Offset = offset
	return true
}
