package images

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// incoming receives the messages of an upload, and fails if none arrives for too long.
type incoming struct {
	ctx   context.Context //nolint:containedctx // the context of the stream, with the same lifetime
	parts chan part
	stall time.Duration // maximum time between two messages
}

type part struct {
	r   *holdfastv1.UploadFileRequest
	err error
}

// listen receives messages until the stream or ctx ends.
func listen(ctx context.Context, stream uploadStream, stall time.Duration) *incoming {
	in := &incoming{ctx: ctx, parts: make(chan part), stall: stall}
	go func() {
		for {
			r, err := stream.Recv() // returns when the stream ends
			select {
			case in.parts <- part{r, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return in
}

// next returns the next message.
func (in *incoming) next() (*holdfastv1.UploadFileRequest, error) {
	t := time.NewTimer(in.stall)
	defer t.Stop()
	select {
	case p := <-in.parts:
		return p.r, p.err
	case <-t.C:
		return nil, refusal(codes.Unavailable, "STALLED",
			"the upload sent nothing for %s: upload the file again, it resumes", in.stall)
	case <-in.ctx.Done():
		return nil, in.ctx.Err()
	}
}
