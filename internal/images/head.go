package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// headTimeout bounds the read of the first bytes of a file from a URL.
const headTimeout = 5 * time.Second

// Head returns up to n of the first bytes of a file: from this peer, from another one that has it,
// or from its URL, which may be empty. A file that is nowhere yet is an error that wraps
// fs.ErrNotExist.
func (d *Depot) Head(ctx context.Context, sum, from string, n int) ([]byte, error) {
	f, err := d.open(ctx, sum)
	if err == nil {
		defer func() { _ = f.Close() }()
		return headOf(f, n)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("cannot read image file, asking the other peers", "sha256", sum, "error", err)
	}
	peers, _ := d.holders(ctx, sum, "")
	failed := []error{fs.ErrNotExist}
	for _, id := range peers {
		head, err := d.headOfPeer(ctx, id, sum, n)
		if err == nil {
			return head, nil
		}
		failed = append(failed, err)
	}
	if from == "" {
		return nil, fmt.Errorf("read the start of image file %s: %w", sum, errors.Join(failed...))
	}
	return d.headOfURL(ctx, from, n)
}

func (d *Depot) headOfPeer(ctx context.Context, id, sum string, n int) ([]byte, error) {
	conn, err := d.cluster.PeerConn(id)
	if err != nil {
		return nil, fmt.Errorf("read from peer %s: %w", id, err)
	}
	ctx, cancel := context.WithCancel(ctx) // the rest of the file is not sent
	defer cancel()
	stream, err := internalv1.NewBlobServiceClient(conn).ReadBlob(ctx, &internalv1.ReadBlobRequest{Sha256: sum})
	if err != nil {
		return nil, fmt.Errorf("read from peer %s: %w", id, err)
	}
	var head []byte
	for len(head) < n {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return head, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read from peer %s: %w", id, err)
		}
		head = append(head, part.GetData()...)
	}
	return head[:n], nil
}

func (d *Depot) headOfURL(ctx context.Context, from string, n int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read the start of %s: %w", displayURL(from), unwrapURL(err))
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "holdfast")
	req.Header.Set("Range", "bytes=0-"+strconv.Itoa(n-1))
	resp, err := d.cfg.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the start of %s: %w", displayURL(from), unwrapURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return nil, fmt.Errorf("read the start of %s: the server answered %s", displayURL(from), resp.Status)
	}
	return headOf(resp.Body, n)
}

func headOf(r io.Reader, n int) ([]byte, error) {
	head := make([]byte, n)
	got, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read the start of an image file: %w", err)
	}
	return head[:got], nil
}
