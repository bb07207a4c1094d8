package images

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// incoming gives what comes on a stream of an upload, as long as it keeps coming.
type incoming struct {
	ctx   context.Context //nolint:containedctx // it is a stream's, and lives as long
	parts chan part
	stall time.Duration // nothing may come for so long
}

type part struct {
	r   *holdfastv1.UploadFileRequest
	err error
}

// listen receives until the stream or ctx ends.
func listen(ctx context.Context, stream uploadStream, stall time.Duration) *incoming {
	in := &incoming{ctx: ctx, parts: make(chan part), stall: stall}
	go func() {
		for {
			r, err := stream.Recv() // it ends with the stream
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
		return nil, refusal(codes.Unavailable, "STALLED", "nothing came of the upload for %s: send it again, it goes on from where it was", in.stall)
	case <-in.ctx.Done():
		return nil, in.ctx.Err()
	}
}
