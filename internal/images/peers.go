package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// chunk is the number of bytes in one message between peers.
const chunk = 256 << 10

// answer is a peer's answer to StatBlob.
type answer struct {
	id   string
	stat *internalv1.StatBlobResponse
	err  error
}

// others returns the ids of the other peers that are reachable.
func (d *Depot) others(ctx context.Context) []string {
	var ids []string
	for _, p := range d.cluster.Status(ctx).GetPeers() {
		if p.GetId() != d.cfg.PeerID && p.GetError() == "" {
			ids = append(ids, p.GetId())
		}
	}
	return ids
}

// voters returns the ids of the voting peers, including this one if it votes.
func (d *Depot) voters(ctx context.Context) []string {
	var ids []string
	for _, p := range d.cluster.Status(ctx).GetPeers() {
		if p.GetSuffrage() == "voter" {
			ids = append(ids, p.GetId())
		}
	}
	return ids
}

// ask calls StatBlob on peers in parallel, which may include this one.
func (d *Depot) ask(ctx context.Context, ids []string, r *internalv1.StatBlobRequest) []answer {
	ctx, cancel := context.WithTimeout(ctx, statTimeout)
	defer cancel()
	answers := make([]answer, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			a := answer{id: id}
			if id == d.cfg.PeerID {
				a.stat, a.err = d.StatBlob(ctx, r)
			} else if conn, err := d.cluster.PeerConn(id); err != nil {
				a.err = err
			} else {
				a.stat, a.err = internalv1.NewBlobServiceClient(conn).StatBlob(ctx, r)
			}
			answers[i] = a
		})
	}
	wg.Wait()
	return answers
}

// StatBlob reports whether this peer has a file, or its progress.
func (d *Depot) StatBlob(ctx context.Context, r *internalv1.StatBlobRequest) (*internalv1.StatBlobResponse, error) {
	a := &internalv1.StatBlobResponse{PeerId: d.cfg.PeerID}
	size, ok, err := d.has(ctx, r.GetSha256())
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if ok {
		a.Present, a.SizeBytes = true, size
		if r.GetKeep() {
			d.store.Keep(r.GetSha256(), time.Now())
		}
		return a, nil
	}
	fetching, last := d.status(r.GetSha256())
	a.Fetching, a.ReceivedBytes = fetching, d.store.Received(r.GetSha256())
	if err = errors.Join(err, last); err != nil {
		a.Error = err.Error()
	}
	return a, nil
}

// PullBlob fetches a file, preferably from the calling peer. The fetch continues if the
// caller goes away.
func (d *Depot) PullBlob(ctx context.Context, r *internalv1.PullBlobRequest) (*internalv1.PullBlobResponse, error) {
	f := file{sum: r.GetSha256(), size: r.GetSizeBytes()}
	//nolint:contextcheck // a fetch lives as long as Run, not as long as its caller
	if err := d.fetch(f, r.GetPeerId()).wait(ctx); err != nil {
		return nil, toStatus(err)
	}
	d.store.Keep(r.GetSha256(), time.Now())
	return &internalv1.PullBlobResponse{}, nil
}

// ReadBlob sends a file from the given offset.
func (d *Depot) ReadBlob(
	r *internalv1.ReadBlobRequest,
	stream grpc.ServerStreamingServer[internalv1.ReadBlobResponse],
) error {
	f, err := d.open(stream.Context(), r.GetSha256())
	if errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(codes.NotFound, "peer %s does not have image file %.64q", d.cfg.PeerID, r.GetSha256())
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(r.GetOffset(), io.SeekStart); err != nil {
		return status.Errorf(codes.OutOfRange, "offset %d: %v", r.GetOffset(), err)
	}
	for {
		buf := make([]byte, chunk) // gRPC may retain it
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			if err := stream.Send(&internalv1.ReadBlobResponse{Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read image file %s: %w", r.GetSha256(), err)
		}
	}
}

// Copies returns the progress of each peer with a file.
func (d *Depot) Copies(ctx context.Context, sum string) []*holdfastv1.Image_Copy {
	var ids []string
	down := map[string]string{}
	for _, p := range d.cluster.Status(ctx).GetPeers() {
		if ids = append(ids, p.GetId()); p.GetError() != "" && p.GetId() != d.cfg.PeerID {
			down[p.GetId()] = p.GetError()
		}
	}
	asked := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return down[id] != "" })
	copies := make([]*holdfastv1.Image_Copy, 0, len(ids))
	for _, a := range d.ask(ctx, asked, &internalv1.StatBlobRequest{Sha256: sum}) {
		c := &holdfastv1.Image_Copy{
			PeerId:        a.id,
			Present:       a.stat.GetPresent(),
			ReceivedBytes: a.stat.GetReceivedBytes(),
			Error:         a.stat.GetError(),
		}
		if a.err != nil {
			c.Error = status.Convert(a.err).Message()
		}
		copies = append(copies, c)
	}
	for id, why := range down {
		copies = append(copies, &holdfastv1.Image_Copy{PeerId: id, Error: why})
	}
	slices.SortFunc(copies, func(a, b *holdfastv1.Image_Copy) int { return cmp.Compare(a.GetPeerId(), b.GetPeerId()) })
	return copies
}

// Held returns nil if a majority of voters has an uploaded file, and otherwise an error.
// The voters then keep the file for another day.
func (d *Depot) Held(ctx context.Context, sum string) error {
	voters := d.voters(ctx)
	have := 0
	for _, a := range d.ask(ctx, voters, &internalv1.StatBlobRequest{Sha256: sum, Keep: true}) {
		if a.stat.GetPresent() {
			have++
		}
	}
	if have > len(voters)/2 {
		return nil
	}
	return refusal(codes.FailedPrecondition, "BYTES_MISSING",
		"%d of %d voters have the file with the SHA-256 %s: "+
			"upload it first (holdfast image add NAME --disk FILE), or set a URL",
		have, len(voters), sum)
}
