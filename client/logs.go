package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// FollowLogs calls f for each chunk of a run's log from the given byte on, and returns nil if the
// run has ended and all of its log was delivered. When a peer fails it goes on with another one at
// the byte after the last: no byte is delivered twice and none is left out. An error of f ends it
// and is returned. Where the server keeps no more of the log's beginning, the first chunk's offset
// tells.
func (c *Client) FollowLogs(ctx context.Context, runID string, offset int64, f func(*holdfastv1.LogChunk) error) error {
	return c.logs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: runID, Offset: offset}, f)
}

// ReadLogs is FollowLogs that returns at the end of what there is.
func (c *Client) ReadLogs(ctx context.Context, runID string, offset int64, f func(*holdfastv1.LogChunk) error) error {
	return c.logs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: runID, Offset: offset, NoFollow: true}, f)
}

func (c *Client) logs(ctx context.Context, req *holdfastv1.StreamRunLogsRequest, f func(*holdfastv1.LogChunk) error) error {
	return c.peers.follow(ctx, holdfastv1.RunService_StreamRunLogs_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			return logPart(ctx, cc, req, f)
		})
}

// logPart moves req.Offset on as it delivers.
func logPart(ctx context.Context, cc grpc.ClientConnInterface, req *holdfastv1.StreamRunLogsRequest,
	f func(*holdfastv1.LogChunk) error) (received bool, err error) {
	stream, err := holdfastv1.NewRunServiceClient(cc).StreamRunLogs(ctx, req)
	if err != nil {
		return false, err
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return received, errEnded
		}
		if err != nil {
			return received, err
		}
		received = true
		if !cut(chunk, req.GetOffset()) {
			continue
		}
		if err := f(chunk); err != nil {
			return true, callerError{err}
		}
		req.Offset = chunk.GetOffset() + int64(len(chunk.GetData()))
	}
}

// cut takes off the chunk what lies before the offset, and tells whether anything is left. A chunk
// that only says that the log was truncated has no data and is kept.
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
