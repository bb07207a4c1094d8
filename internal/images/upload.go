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

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	reportEvery = 2 * time.Second // interval of progress messages
	slowest     = 1 << 20         // bytes per second; the minimum rate between peers
	slack       = 2 * time.Minute // additional time
)

type uploadStream = grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse]

// Upload receives a file and returns when a majority of voters has it. A stream counts as
// an upload only after its first message.
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
		return refusal(codes.ResourceExhausted, "UPLOADS",
			"this peer already receives %d uploads, the limit: retry later", maxUploads)
	}
	head := first.GetHeader()
	switch {
	case !fsm.ValidSum(head.GetSha256()):
		return refusal(codes.InvalidArgument, "INVALID_FIELD",
			"header.sha256 is not a SHA-256: want 64 hexadecimal digits in lower case in the first message")
	case head.GetSizeBytes() <= 0 || head.GetSizeBytes() > fsm.MaxImageFile:
		return refusal(codes.InvalidArgument, "INVALID_FIELD",
			"header.size_bytes is %d: want 1 to %d", head.GetSizeBytes(), int64(fsm.MaxImageFile))
	}
	if err := d.receive(stream, in, head); err != nil {
		return err
	}
	d.store.Keep(head.GetSha256(), time.Now())
	return d.replicate(stream, head)
}

// receive receives the file on this peer.
func (d *Depot) receive(stream uploadStream, in *incoming, head *holdfastv1.UploadFileRequest_Header) error {
	ctx := stream.Context()
	size, ok, err := d.has(ctx, head.GetSha256())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ok {
		if size != head.GetSizeBytes() {
			return refusal(codes.InvalidArgument, "WRONG_SIZE", "the file with the SHA-256 %s has %d bytes, not %d",
				head.GetSha256(), size, head.GetSizeBytes())
		}
		return stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: size})
	}
	if err != nil && !errors.Is(err, blob.ErrSum) {
		d.log.Warn("cannot read image file, receiving it again", "error", err)
	}
	r, err := d.store.Receive(ctx, head.GetSha256(), head.GetSizeBytes())
	if err != nil {
		return toStatus(err)
	}
	defer func() { _ = r.Close() }()
	if err := stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: r.Offset()}); err != nil {
		return err
	}
	reported := time.Now()
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
			return toStatus(err)
		}
		if time.Since(reported) > reportEvery {
			reported = time.Now()
			if err := stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: r.Offset()}); err != nil {
				return err
			}
		}
	}
	err = r.Commit()
	if errors.Is(err, blob.ErrSum) { // the caller's bytes are not those that it has announced
		return refusal(codes.InvalidArgument, "WRONG_SUM", "%v", err)
	}
	return toStatus(err)
}

// replicate makes the other voters fetch the file and returns when a majority has it. The
// fetches of the others continue.
func (d *Depot) replicate(stream uploadStream, head *holdfastv1.UploadFileRequest_Header) error {
	ctx, cancel := context.WithTimeout(stream.Context(), slack+time.Duration(head.GetSizeBytes()/slowest)*time.Second)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	voters := d.voters(ctx)
	type result struct {
		id  string
		err error
	}
	results := make(chan result, len(voters)) // buffered: the last results are not read
	for _, id := range voters {
		calls.Go(func() { results <- result{id, d.pull(ctx, id, head)} })
	}
	report := time.NewTicker(reportEvery)
	defer report.Stop()
	var have, failed []string
	for len(have) <= len(voters)/2 {
		if len(voters)-len(failed) <= len(voters)/2 {
			return refusal(codes.FailedPrecondition, "NO_MAJORITY",
				"%d of %d voters have the file, a majority is needed: peer %s keeps it for a day, "+
					"retry when more peers can receive it: %s",
				len(have), len(voters), d.cfg.PeerID, strings.Join(failed, "; "))
		}
		select {
		case r := <-results:
			if r.err != nil {
				failed = append(failed, fmt.Sprintf("peer %s: %s", r.id, status.Convert(r.err).Message()))
				continue
			}
			have = append(have, r.id)
		case <-report.C:
			progress := &holdfastv1.UploadFileResponse{ReceivedBytes: head.GetSizeBytes(), Peers: have}
			if err := stream.Send(progress); err != nil {
				return err
			}
		case <-ctx.Done():
			return refusal(codes.FailedPrecondition, "NO_MAJORITY",
				"timed out: %d of %d voters have the file: peer %s keeps it for a day, retry",
				len(have), len(voters), d.cfg.PeerID)
		}
	}
	slices.Sort(have)
	return stream.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: head.GetSizeBytes(), Peers: have, Done: true})
}

// pull makes one voter fetch a file from this peer. It retries for a while, because peers
// restart.
func (d *Depot) pull(ctx context.Context, id string, head *holdfastv1.UploadFileRequest_Header) error {
	if id == d.cfg.PeerID {
		return nil
	}
	req := &internalv1.PullBlobRequest{
		Sha256:    head.GetSha256(),
		SizeBytes: head.GetSizeBytes(),
		PeerId:    d.cfg.PeerID,
	}
	for end := time.Now().Add(10 * d.cfg.Pause); ; {
		conn, err := d.cluster.PeerConn(id)
		if err == nil {
			_, err = internalv1.NewBlobServiceClient(conn).PullBlob(ctx, req)
		}
		if err == nil || status.Code(err) != codes.Unavailable || time.Now().After(end) ||
			wait.Sleep(ctx, d.cfg.Pause) != nil {
			return err
		}
	}
}

// toStatus converts an error of a file to a status.
func toStatus(err error) error {
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
		return refusal(codes.Unavailable, "BUSY", "the file is already being received: retry, the upload resumes")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return refusal(codes.Unavailable, "FETCH_FAILED", "%v", err)
}

// refusal returns a status with a machine-readable reason.
func refusal(c codes.Code, reason, format string, args ...any) error {
	st := status.New(c, fmt.Sprintf(format, args...))
	if more, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: outcome.Domain}); err == nil {
		st = more
	}
	return st.Err()
}
