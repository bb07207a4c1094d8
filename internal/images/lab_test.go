package images_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// lab is a group of peers that share a state, as if each had applied all commands at once. p0
// leads.
type lab struct {
	t     *testing.T
	state *fsm.FSM
	index uint64
	peers []*peer
	grace time.Duration // see images.Config
	brake chan struct{} // if set, peers pause after sending braked bytes of a file, until it is closed
}

// peer is a peer with a real Depot behind real gRPC and HTTP servers.
type peer struct {
	lab   *lab
	id    string
	dir   string
	depot *images.Depot
	store *blob.Store
	srv   *grpc.Server
	web   *httptest.Server
	conn  atomic.Pointer[grpc.ClientConn] // atomic: read by others while it starts
	down  atomic.Bool
	free  atomic.Int64
	stop  func()
}

func newLab(t *testing.T, n int) *lab {
	t.Helper()
	l := &lab{t: t, state: fsm.New(), grace: time.Minute}
	for i := range n {
		p := &peer{lab: l, id: fmt.Sprintf("p%d", i), dir: t.TempDir()}
		p.free.Store(1 << 40)
		l.peers = append(l.peers, p)
	}
	return l
}

// start starts some peers, or all of them.
func (l *lab) start(which ...*peer) *lab {
	l.t.Helper()
	if len(which) == 0 {
		which = l.peers
	}
	for _, p := range which {
		p.start()
	}
	return l
}

func (p *peer) start() {
	t := p.lab.t
	t.Helper()
	var err error
	p.store, err = blob.Open(blob.Config{Dir: p.dir, Free: func(string) (int64, int64, error) {
		return p.free.Load(),
			1 << 40, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.depot = images.New(images.Config{PeerID: p.id, Interval: 10 * time.Millisecond, Pause: 10 * time.Millisecond,
		Stall: 2 * time.Second,
		Grace: p.lab.grace, Patience: 10 * time.Second}, p.store, p, p.lab.state)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.srv = grpc.NewServer(grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo,
		next grpc.StreamHandler) error {
		return next(srv, &braking{ServerStream: s, until: p.lab.brake})
	}))
	p.depot.Register(p.srv)
	holdfastv1.RegisterImageServiceServer(p.srv, uploads{depot: p.depot})
	mux := auth.Open().NewMux()
	p.depot.Routes(mux, nil)
	p.web = httptest.NewServer(mux)
	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	p.conn.Store(conn)
	ctx, cancel := context.WithCancel(t.Context())
	served, ran := make(chan struct{}), make(chan struct{})
	go func() { defer close(served); _ = p.srv.Serve(ln) }()
	go func() { defer close(ran); _ = p.depot.Run(ctx) }()
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		p.down.Store(true)
		cancel()
		p.srv.Stop()
		p.web.Close()
		_ = conn.Close()
		<-served
		<-ran
	}
	p.down.Store(false)
	t.Cleanup(p.stop)
}

// braked is the number of bytes that a peer sends before it waits for lab.brake.
const braked = 2 << 20

// braking is a stream of a peer that pauses.
type braking struct {
	grpc.ServerStream
	until chan struct{}
	sent  int
}

func (b *braking) SendMsg(m any) error {
	if b.sent += proto.Size(m.(proto.Message)); b.until != nil && b.sent > braked {
		select {
		case <-b.until:
		case <-b.Context().Done():
			return b.Context().Err()
		}
	}
	return b.ServerStream.SendMsg(m)
}

// uploads is the upload part of ImageService.
type uploads struct {
	holdfastv1.UnimplementedImageServiceServer
	depot *images.Depot
}

func (u uploads) UploadFile(
	s grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse],
) error {
	return u.depot.Upload(s)
}

// Leader implements images.Cluster.
func (p *peer) Leader() (string, bool, bool) { return "p0", p.id == "p0", true }

// PeerConn implements images.Cluster.
func (p *peer) PeerConn(id string) (grpc.ClientConnInterface, error) {
	for _, o := range p.lab.peers {
		if conn := o.conn.Load(); o.id == id && conn != nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("no peer %s", id)
}

// Status implements images.Cluster.
func (p *peer) Status(context.Context) *holdfastv1.ClusterStatus {
	st := &holdfastv1.ClusterStatus{}
	for _, o := range p.lab.peers {
		s := &holdfastv1.Peer{Id: o.id, Suffrage: "voter"}
		if o.conn.Load() == nil || o.down.Load() {
			s.Error = "it is down"
		}
		st.Peers = append(st.Peers, s)
	}
	return st
}

// View implements images.Cluster.
func (p *peer) View(context.Context) (*fsm.View, error) { return p.lab.state.View(), nil }

// do applies a command.
func (l *lab) do(c *internalv1.Command) {
	l.t.Helper()
	l.index++
	c.FeatureLevel, c.Time = 1, timestamppb.New(time.Unix(1_800_000_000, 0))
	b, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		l.t.Fatal(err)
	}
	if r := l.state.Apply(l.index, 1, b); len(r) != 1 || r[0].Err != nil {
		l.t.Fatalf("apply %v: %v", c, r)
	}
}

// add adds an image with a disk.
func (l *lab) add(name string, f *holdfastv1.Image_File) {
	l.t.Helper()
	l.do(&internalv1.Command{
		Op: &internalv1.Command_PutImage{PutImage: &internalv1.PutImage{Image: &holdfastv1.Image{Name: name, Disk: f},
			Replace: true}}})
}

// has blocks until a peer has a file.
func (p *peer) has(sum string) {
	p.lab.t.Helper()
	p.lab.until(func() bool { _, ok, _ := p.store.Has(p.lab.t.Context(), sum); return ok }, "%s to have %.8s", p.id, sum)
}

func (l *lab) until(ok func() bool, what string, args ...any) {
	l.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) { // sleep: polls
		if time.Now().After(end) {
			l.t.Fatalf("wait for "+what+": timed out", args...)
		}
	}
}

// put stores a file on a peer, as if it had been fetched before.
func (p *peer) put(b []byte) string {
	p.lab.t.Helper()
	r, err := p.store.Receive(p.lab.t.Context(), sumOf(b), 0)
	if err != nil {
		p.lab.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := r.Write(b); err != nil {
		p.lab.t.Fatal(err)
	}
	if err := r.Commit(); err != nil {
		p.lab.t.Fatal(err)
	}
	return sumOf(b)
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// someBytes returns a file of a size, with content that depends on seed.
func someBytes(size int, seed byte) []byte {
	b := bytes.Repeat([]byte{seed, 1, 2, 3, 5, 7, 11}, size/7+1)[:size]
	for i := 0; i < size; i += 1000 {
		b[i] = byte(i/1000) ^ byte(i>>16)
	}
	return b
}
