package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// uploadChunk is how many bytes one message of an upload has.
const uploadChunk = 256 << 10

// Images is what machines are installed with. To upload a file use UploadFile, which goes on with
// another peer.
func (c *Client) Images() holdfastv1.ImageServiceClient {
	return holdfastv1.NewImageServiceClient(c.peers)
}

// Upload is a file to be uploaded for an image.
type Upload struct {
	SHA256 string // of all of it
	Size   int64
	From   io.ReaderAt
	// Progress is called now and then, with the bytes that a peer has; nil tells nobody. A peer
	// that takes over begins anew.
	Progress func(sent int64)
}

// UploadFile sends a file to the cluster, and returns the peers that have it: a majority of voters.
// When a peer fails it goes on with another one; a peer that has some of it is sent the rest.
func (c *Client) UploadFile(ctx context.Context, u Upload) (peers []string, err error) {
	err = c.peers.follow(ctx, holdfastv1.ImageService_UploadFile_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			var received bool
			peers, received, err = u.part(ctx, cc)
			return received, err
		})
	return peers, err
}

// part is the upload to one peer.
func (u *Upload) part(ctx context.Context, cc grpc.ClientConnInterface) (peers []string, received bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := holdfastv1.NewImageServiceClient(cc).UploadFile(ctx)
	if err != nil {
		return nil, false, err
	}
	head := &holdfastv1.UploadFileRequest_Header{Sha256: u.SHA256, SizeBytes: u.Size}
	// An error of Send is io.EOF: Recv tells which.
	if err := stream.Send(&holdfastv1.UploadFileRequest{Part: &holdfastv1.UploadFileRequest_Header_{Header: head}}); err != nil && !errors.Is(err, io.EOF) {
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
			<-sent //nolint:errcheck // all of it is there
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

// send sends what comes after at.
func (u *Upload) send(stream grpc.BidiStreamingClient[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse], at int64) error {
	for at < u.Size {
		buf := make([]byte, min(uploadChunk, u.Size-at)) // gRPC may keep it
		n, err := u.From.ReadAt(buf, at)
		if n < len(buf) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			_ = stream.CloseSend()
			return callerError{fmt.Errorf("read the file that is uploaded, at %d of %d: it has changed meanwhile: %w", at, u.Size, err)}
		}
		if err := stream.Send(&holdfastv1.UploadFileRequest{Part: &holdfastv1.UploadFileRequest_Data{Data: buf}}); err != nil {
			return err // Recv tells why
		}
		at += int64(n)
	}
	return stream.CloseSend()
}
