package operator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// between is a peer that gives a snapshot of another one, and leaves who comes to tell that he has
// it without an answer.
type between struct {
	holdfastv1.UnimplementedOperatorServiceServer

	peer holdfastv1.OperatorServiceClient
	told chan struct{}
}

// SaveSnapshot hands on what the peer sends.
func (b *between) SaveSnapshot(
	r *holdfastv1.SaveSnapshotRequest, to grpc.ServerStreamingServer[holdfastv1.SnapshotData],
) error {
	from, err := b.peer.SaveSnapshot(to.Context(), r)
	if err != nil {
		return err
	}
	for {
		part, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := to.Send(part); err != nil {
			return err
		}
	}
}

// NoteSnapshot reports that there is a note, which goes no further.
func (b *between) NoteSnapshot(
	ctx context.Context, _ *holdfastv1.NoteSnapshotRequest,
) (*holdfastv1.NoteSnapshotResponse, error) {
	b.told <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// savesAndDies kills the command that saves a snapshot when the file is in its place, and the
// cluster does not know of it: the file is whole, it is not on record, and the next save is noted.
func (s *site) savesAndDies(t *testing.T) {
	conn, err := grpc.NewClient(s.Addrs()[0], grpc.WithTransportCredentials(s.Credentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	known := func() int64 {
		st, err := holdfastv1.NewClusterServiceClient(conn).GetClusterStatus(t.Context(),
			&holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return st.GetLastBackupAt().AsTime().UnixNano()
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{peer: holdfastv1.NewOperatorServiceClient(conn), told: make(chan struct{}, 1)}
	srv := grpc.NewServer()
	holdfastv1.RegisterOperatorServiceServer(srv, b)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	defer func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	}()

	dir := filepath.Join(s.dir, "killed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a.snap")
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := s.command(ctx, false, "--addr", ln.Addr().String(), "operator", "snapshot", "save", file)
	for i, kv := range cmd.Env {
		if strings.HasPrefix(kv, "HOLDFAST_CA=") {
			cmd.Env[i] = "HOLDFAST_CA=" // it speaks to a peer without TLS
		}
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.told:
		_ = cmd.Process.Kill()
	case <-ctx.Done():
	}
	_ = cmd.Wait() // it was killed
	if ctx.Err() != nil {
		t.Fatalf("the command did not come to its note:\n%s", said.String())
	}

	s.must(t, "operator", "snapshot", "verify", file)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("beside the file there are %v, %v, want nothing", left, err)
	}
	if untold := takenAt(t, file); known() == untold {
		t.Errorf("the backup of %d is on record: nobody has told of it", untold)
	}
	s.must(t, "operator", "snapshot", "save", file)
	want := takenAt(t, file)
	// Peers answer out of what they have: this one may not have heard of it yet.
	harness.Until(t, "the newest backup on record to be the second one", func() (bool, any) {
		got := known()
		return got == want, got
	})
}

// takenAt is when a snapshot file was taken, as it says itself.
func takenAt(t *testing.T, file string) int64 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := fsm.ReadBackup(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return b.Header.GetTakenAt().AsTime().UnixNano()
}
