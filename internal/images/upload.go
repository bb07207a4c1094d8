package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	sayEvery = 2 * time.Second // while an upload goes on
	slowest  = 1 << 20         // bytes a second that peers give each other at least
	slack    = 2 * time.Minute // and what they may take besides
)

type uploadStream = grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse]

// Upload takes a file, and answers when a majority of voters has it. Who says nothing has no place
// among the uploads.
func (d *Depot) Upload(stream uploadStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	in := listen(ctx, stream, d.cfg.Stall)
	first, err := in.next()
	if err != nil {
		return err
	}
	select {
	case d.uploads <- struct{}{}:
		defer func() { <-d.uploads }()
	default:
		return refusal(codes.ResourceExhausted, "UPLOADS", "this peer takes %d uploads at once already: try again later", maxUploads)
	}
	head := first.GetHeader()
	switch {
	case !fsm.ValidSum(head.GetSha256()):
		return refusal(codes.InvalidArgument, "INVALID_FIELD", "header.sha256 is not a SHA-256: the first message has a header with 64 hexadecimal digits, small letters")
	case head.GetSizeBytes() <= 0 || head.GetSizeBytes() > fsm.MaxImageFile:
		return refusal(codes.InvalidArgument, "INVALID_FIELD", "header.size_bytes is %d: a file has 1 to %d bytes", head.GetSizeBytes(), int64(fsm.MaxImageFile))
	}
	if err := d.take(stream, in, head); err != nil {
		return err
	}
	d.store.Keep(head.GetSha256(), time.Now())
	return d.spread(stream, head)
}

// take receives the file on this peer.
func (d *Depot) take(stream uploadStream, in *incoming, head *holdfastv1.UploadFileRequest_Header) error {
	ctx := stream.Context()
	size, ok, err := d.store.Has(ctx, head.GetSha256())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ok {
		if size != head.GetSizeBytes() {
			return refusal(codes.DataLoss, "WRONG_SUM", "the file with the SHA-256 %s has %d bytes, not %d", head.GetSha256(), size, head.GetSizeBytes())
		}
		return stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: size})
	}
	if err != nil {
		d.log.Warn("image file is uploaded anew", "error", err)
	}
	r, err := d.store.Receive(ctx, head.GetSha256(), head.GetSizeBytes())
	if err != nil {
		return worded(err)
	}
	defer func() { _ = r.Close() }()
	if err := stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: r.Offset()}); err != nil {
		return err
	}
	said := time.Now()
	for {
		part, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n, err := r.Write(part.GetData())
		d.metrics.fetched.WithLabelValues("upload").Add(float64(n))
		if err != nil {
			return worded(err)
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			if err := stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: r.Offset()}); err != nil {
				return err
			}
		}
	}
	return worded(r.Commit())
}

// spread lets the other voters fetch the file, and answers when a majority has it. The others go
// on.
func (d *Depot) spread(stream uploadStream, head *holdfastv1.UploadFileRequest_Header) error {
	ctx, cancel := context.WithTimeout(stream.Context(), slack+time.Duration(head.GetSizeBytes()/slowest)*time.Second)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	voters := d.voters(ctx)
	type result struct {
		id  string
		err error
	}
	results := make(chan result, len(voters)) // nobody waits for the last of them, whose fetches go on
	for _, id := range voters {
		calls.Go(func() { results <- result{id, d.give(ctx, id, head)} })
	}
	say := time.NewTicker(sayEvery)
	defer say.Stop()
	var have, failed []string
	for len(have) <= len(voters)/2 {
		if len(voters)-len(failed) <= len(voters)/2 {
			return refusal(codes.FailedPrecondition, "NO_MAJORITY", "%d of %d voters have the file, a majority must: peer %s keeps it for a day, try again when more peers can take it: %s", len(have), len(voters), d.cfg.PeerID, strings.Join(failed, "; "))
		}
		select {
		case r := <-results:
			if r.err != nil {
				failed = append(failed, fmt.Sprintf("peer %s: %s", r.id, status.Convert(r.err).Message()))
				continue
			}
			have = append(have, r.id)
		case <-say.C:
			if err := stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: head.GetSizeBytes(), Peers: have}); err != nil {
				return err
			}
		case <-ctx.Done():
			return refusal(codes.FailedPrecondition, "NO_MAJORITY", "%d of %d voters have the file after a long time: peer %s keeps it for a day, try again", len(have), len(voters), d.cfg.PeerID)
		}
	}
	slices.Sort(have)
	return stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: head.GetSizeBytes(), Peers: have, Done: true})
}

// give lets one voter fetch a file that this peer has, and tries again for a while: peers restart.
func (d *Depot) give(ctx context.Context, id string, head *holdfastv1.UploadFileRequest_Header) error {
	if id == d.cfg.PeerID {
		return nil
	}
	for end := time.Now().Add(10 * d.cfg.Pause); ; {
		conn, err := d.cluster.PeerConn(id)
		if err == nil {
			_, err = internalv1.NewBlobServiceClient(conn).PullBlob(ctx, &internalv1.PullBlobRequest{Sha256: head.GetSha256(), SizeBytes: head.GetSizeBytes(), PeerId: d.cfg.PeerID})
		}
		if err == nil || status.Code(err) != codes.Unavailable || time.Now().After(end) || !sleep(ctx, d.cfg.Pause) {
			return err
		}
	}
}

// worded makes a status of what went wrong with a file.
func worded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blob.ErrSum):
		return refusal(codes.DataLoss, "WRONG_SUM", "%v", err)
	case errors.Is(err, blob.ErrFull):
		return refusal(codes.ResourceExhausted, "DISK_FULL", "%v", err)
	case errors.Is(err, blob.ErrSize):
		return refusal(codes.InvalidArgument, "WRONG_SIZE", "%v", err)
	case errors.Is(err, blob.ErrBusy):
		return refusal(codes.Unavailable, "BUSY", "somebody else sends this file right now: try again, it goes on from there")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return refusal(codes.Unavailable, "FETCH_FAILED", "%v", err)
}

// refusal is a status with a reason for programs.
func refusal(c codes.Code, reason, format string, args ...any) error {
	st := status.New(c, fmt.Sprintf(format, args...))
	if more, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: cluster.ErrorDomain}); err == nil {
		st = more
	}
	return st.Err()
}
