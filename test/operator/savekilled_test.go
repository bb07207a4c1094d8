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

// proxy forwards the snapshot of a peer, and never answers the note that the client has saved it.
type proxy struct {
	holdfastv1.UnimplementedOperatorServiceServer

	peer  holdfastv1.OperatorServiceClient
	noted chan struct{}
}

// SaveSnapshot forwards the snapshot.
func (b *proxy) SaveSnapshot(
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

// NoteSnapshot signals the note and drops it.
func (b *proxy) NoteSnapshot(
	ctx context.Context, _ *holdfastv1.NoteSnapshotRequest,
) (*holdfastv1.NoteSnapshotResponse, error) {
	b.noted <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// saveIsKilled kills a save proxy the rename of its file and the note to the cluster. The file
// must be complete and not recorded, and the next save must be recorded.
func (s *site) saveIsKilled(t *testing.T) {
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
	b := &proxy{peer: holdfastv1.NewOperatorServiceClient(conn), noted: make(chan struct{}, 1)}
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
			cmd.Env[i] = "HOLDFAST_CA=" // the proxy has no TLS
		}
	}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.noted:
		_ = cmd.Process.Kill()
	case <-ctx.Done():
	}
	_ = cmd.Wait() // it was killed
	if ctx.Err() != nil {
		t.Fatalf("the command sent no note:\n%s", output.String())
	}

	s.must(t, "operator", "snapshot", "verify", file)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files besides the snapshot: got %v, %v, want none", left, err)
	}
	if lost := takenAt(t, file); known() == lost {
		t.Errorf("recorded backup: got %d, want an older one, because its note was lost", lost)
	}
	s.must(t, "operator", "snapshot", "save", "--force", file)
	want := takenAt(t, file)
	// Peers answer from their own state, so this one may not have it yet.
	harness.Until(t, "the second backup to be recorded", func() (bool, any) {
		got := known()
		return got == want, got
	})
}

// takenAt returns the time at which a snapshot file was taken, as recorded in it.
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
