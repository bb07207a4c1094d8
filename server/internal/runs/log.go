package runs

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

const (
	maxLogChunk = 64 << 10 // maximum bytes of log in one message
	// logPause is the minimum time between two reads of a run's log. Shorter ones would
	// only cost CPU: no reader is faster.
	logPause = 25 * time.Millisecond
)

// StreamRunLogs streams a run's log from a byte offset. It follows the log until the run
// has ended and everything is sent.
func (s *Service) StreamRunLogs(
	r *holdfastv1.StreamRunLogsRequest, stream grpc.ServerStreamingServer[holdfastv1.LogChunk],
) error {
	return s.ReadLog(stream.Context(), r, stream.Send)
}

// ReadLog is StreamRunLogs for a caller in this process.
func (s *Service) ReadLog(
	ctx context.Context, r *holdfastv1.StreamRunLogsRequest, send func(*holdfastv1.LogChunk) error,
) error {
	if err := request.Required("run_id", r.GetRunId()); err != nil {
		return err
	}
	if r.GetOffset() < 0 {
		return request.Invalid("offset", fmt.Sprintf("is %d: want 0 or more", r.GetOffset()))
	}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	if run, ok := scope.Run(ctx, v, r.GetRunId()); ok && r.GetOffset() > run.GetLogBytes() {
		return &fsm.Error{
			Code: fsm.OutOfRange, Reason: "OFFSET_BEYOND_END",
			Meta: map[string]string{"run_id": run.GetRunId(), "log_bytes": fmt.Sprint(run.GetLogBytes())},
			Message: fmt.Sprintf("offset %d is beyond the end of the log of run %s, which has %d bytes",
				r.GetOffset(), run.GetRunId(), run.GetLogBytes()),
		}
	}
	for offset := r.GetOffset(); ; {
		changed := s.State.Changed()
		v := s.State.View() // at least as recent as the first view
		run, ok := scope.Run(ctx, v, r.GetRunId())
		if !ok {
			return request.NotFound("RUN_NOT_FOUND", "run", r.GetRunId())
		}
		if run.GetArchive() != nil && offset < run.GetLogBytes() {
			return s.sendArchivedLog(ctx, run, offset, send)
		}
		if offset, err = sendLog(v, run, offset, send); err != nil {
			return err
		}
		if fsm.Ended(run) || r.GetNoFollow() {
			return nil
		}
		if err := edge.Pause(ctx, s.Draining, logPause, changed); err != nil {
			return err
		}
	}
}

// sendLog sends the log of a view from an offset, and returns the offset after it.
func sendLog(v *fsm.View, run *holdfastv1.Run, offset int64, send func(*holdfastv1.LogChunk) error) (int64, error) {
	if offset >= run.GetLogBytes() {
		return offset, nil
	}
	return sendChunks(v.RunLog(run.GetRunId(), offset), offset, send)
}

// sendArchivedLog sends the log of an archived run from an offset.
func (s *Service) sendArchivedLog(
	ctx context.Context, run *holdfastv1.Run, offset int64, send func(*holdfastv1.LogChunk) error,
) error {
	log, err := s.archivedLog(ctx, run, offset)
	if err == nil {
		_, err = sendChunks(log, offset, send)
	}
	return err
}

// sendChunks sends chunks of a log, and returns the offset after the last one.
func sendChunks(
	log iter.Seq[*holdfastv1.LogChunk], offset int64, send func(*holdfastv1.LogChunk) error,
) (int64, error) {
	for c := range log {
		for _, part := range split(c) {
			if err := send(part); err != nil {
				return offset, err
			}
		}
		offset = c.GetOffset() + int64(len(c.GetData()))
	}
	return offset, nil
}

// split divides a chunk that is too large for one message.
func split(c *holdfastv1.LogChunk) []*holdfastv1.LogChunk {
	if len(c.GetData()) <= maxLogChunk {
		return []*holdfastv1.LogChunk{c}
	}
	var parts []*holdfastv1.LogChunk
	for at := 0; at < len(c.GetData()); at += maxLogChunk {
		end := min(at+maxLogChunk, len(c.GetData()))
		parts = append(parts, &holdfastv1.LogChunk{
			Ts:        c.GetTs(),
			RunId:     c.GetRunId(),
			Stream:    c.GetStream(),
			Data:      c.GetData()[at:end],
			Offset:    c.GetOffset() + int64(at),
			Step:      c.GetStep(),
			Attempt:   c.GetAttempt(),
			Truncated: c.GetTruncated() && end == len(c.GetData()),
		})
	}
	return parts
}
