package operator

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// stageChunk is the number of bytes per call of an upload: two chunks fit into a log entry.
const stageChunk = 240 << 10

// received returns the snapshot that a peer sends, and writes it to a file at the same time.
type received struct {
	stream grpc.ServerStreamingClient[holdfastv1.SnapshotData]
	file   *os.File
	sum    hash.Hash
	size   int64
	left   []byte // of the last part
	err    error  // of the stream or the file; that of the reader is only its consequence
}

func (r *received) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		part, err := r.stream.Recv()
		if err == io.EOF { //nolint:errorlint // gRPC returns it unwrapped, and so must a reader
			return 0, io.EOF
		}
		if err != nil {
			r.err = app.Failed(err, "save snapshot")
			return 0, r.err
		}
		r.left = part.GetData()
		_, _ = r.sum.Write(r.left) // a hash never fails
		n, err := r.file.Write(r.left)
		if r.size += int64(n); err != nil {
			r.err = fmt.Errorf("save snapshot: %w", err)
			return 0, r.err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// readBack returns an error if the file differs from the received bytes.
func (r *received) readBack() error {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	again := r.sum.Sum(nil)
	r.sum.Reset()
	if _, err := io.Copy(r.sum, r.file); err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	if got := r.sum.Sum(nil); !bytes.Equal(got, again) {
		return fmt.Errorf("read it back: the file has the SHA-256 %x, what the peer sent %x", got, again)
	}
	return nil
}

// counted counts the bytes that are read through it.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// stage uploads a snapshot file in chunks and returns their number. The leader verifies every
// record before it restores.
func stage(ctx context.Context, c *client.Client, id string, data []byte) (uint32, error) {
	n := uint32(0)
	for chunk := range slices.Chunk(data, stageChunk) {
		if _, err := c.Operator().StageSnapshot(ctx, &holdfastv1.StageSnapshotRequest{RestoreId: id, Sequence: n,
			Data: chunk}); err != nil {
			return n, app.Failed(err, "stage snapshot")
		}
		n++
	}
	return n, nil
}
