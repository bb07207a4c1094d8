package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// uploadChunk is the number of bytes in one message of an upload.
const uploadChunk = 256 << 10

// Images returns the service that manages machine images. Use UploadFile to upload a file:
// it continues with another peer if one fails.
func (c *Client) Images() holdfastv1.ImageServiceClient {
	return holdfastv1.NewImageServiceClient(c.peers)
}

// Upload is a file to upload for an image.
type Upload struct {
	SHA256 string // of the whole file
	Size   int64
	From   io.ReaderAt
	// Progress is called from time to time with the number of bytes that the peer has
	// received. It may be nil. Another peer may start over.
	Progress func(sent int64)
}

// UploadFile uploads a file to the cluster and returns the peers that have it, a majority
// of the voters. If a peer fails, UploadFile continues with another one and sends the bytes
// it lacks.
func (c *Client) UploadFile(ctx context.Context, u Upload) (peers []string, err error) {
	err = c.peers.follow(ctx, holdfastv1.ImageService_UploadFile_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			var received bool
			peers, received, err = u.part(ctx, cc)
			return received, err
		})
	return peers, err
}

// part uploads to one peer.
func (u *Upload) part(ctx context.Context, cc grpc.ClientConnInterface) (peers []string, received bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := holdfastv1.NewImageServiceClient(cc).UploadFile(ctx)
	if err != nil {
		return nil, false, err
	}
	head := &holdfastv1.UploadFileRequest_Header_{
		Header: &holdfastv1.UploadFileRequest_Header{Sha256: u.SHA256, SizeBytes: u.Size},
	}
	// Send returns io.EOF if the stream broke: Recv returns the cause.
	if err := stream.Send(&holdfastv1.UploadFileRequest{Part: head}); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, false, err
	}
	u.say(first.GetReceivedBytes())
	sent := make(chan error, 1)
	go func() { sent <- u.send(stream, first.GetReceivedBytes()) }()
	for {
		r, err := stream.Recv()
		if err == nil && r.GetDone() {
			stop()
			<-sent //nolint:errcheck // the upload is complete
			return r.GetPeers(), true, errEnded
		}
		if err != nil {
			stop()
			if mine, ok := errors.AsType[callerError](<-sent); ok {
				return nil, true, mine
			}
			return nil, true, err
		}
		u.say(r.GetReceivedBytes())
	}
}

func (u *Upload) say(sent int64) {
	if u.Progress != nil {
		u.Progress(sent)
	}
}

// send sends the file from offset at on.
func (u *Upload) send(
	stream grpc.BidiStreamingClient[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse], at int64,
) error {
	for at < u.Size {
		buf := make([]byte, min(uploadChunk, u.Size-at)) // gRPC may keep it
		n, err := u.From.ReadAt(buf, at)
		if n < len(buf) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			_ = stream.CloseSend()
			err = fmt.Errorf("read file at %d of %d: it has changed during the upload: %w", at, u.Size, err)
			return callerError{err}
		}
		data := &holdfastv1.UploadFileRequest_Data{Data: buf}
		if err := stream.Send(&holdfastv1.UploadFileRequest{Part: data}); err != nil {
			return err // Recv returns the cause
		}
		at += int64(n)
	}
	return stream.CloseSend()
}
