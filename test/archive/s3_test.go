package archive

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
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

const (
	patience = 5 * time.Minute
	bucket   = "runs-of-prod"
)

// lab is a cluster and its S3 server.
type lab struct {
	cluster *localcluster.Cluster
	root    string // the server's files
	address string
	dir     string
	server  *localcluster.Program
}

func TestArchiveToS3(t *testing.T) {
	if os.Getenv("E2E_S3") == "" {
		t.Skip("NOT TESTED: needs an S3 server: run make e2e-s3")
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	l := start(ctx, t)
	leader, err := l.cluster.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	api := l.dial(t, leader)
	if _, err := api.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-1",
			Spec: &holdfastv1.MachineSpec{Provider: "fake"}}}); err != nil {
		t.Fatal(err)
	}
	first := l.run(ctx, t, api, "first")
	l.archived(ctx, t, api, first)
	objects, err := filepath.Glob(filepath.Join(l.root, bucket, "prod", "runs", first, "*.zst"))
	if err != nil || len(objects) != 1 {
		t.Errorf("objects of the run in the bucket: got %v, %v, want one", objects, err)
	}
	for _, p := range l.cluster.Peers() {
		if log := l.log(ctx, t, l.dial(t, p), first); !strings.Contains(log, "attempt 1 of ") {
			t.Errorf("log of the run through %s: got %q, want its attempts", p.ID, log)
		}
	}

	// Without the server, runs succeed and are kept, and archived logs are unavailable.
	if err := l.server.Kill(); err != nil {
		t.Fatal(err)
	}
	second := l.run(ctx, t, api, "second")
	if _, err := read(ctx, api, first); err == nil || !strings.Contains(err.Error(), "archive") {
		t.Errorf("archived log without the server: got %v, want an error that names the archive", err)
	}
	if log := l.log(ctx, t, api, second); !strings.Contains(log, "attempt 1 of ") {
		t.Errorf("log of a run that is not archived: got %q", log)
	}
	l.serve(ctx, t)
	l.archived(ctx, t, api, second)
	if log := l.log(ctx, t, api, first); !strings.Contains(log, "attempt 1 of ") {
		t.Errorf("log after the restart of the server: got %q", log)
	}
}

// start starts the S3 server, fake hardware and three peers that archive ended runs at once.
func start(ctx context.Context, t *testing.T) *lab {
	t.Helper()
	l := &lab{dir: t.TempDir()}
	l.root = filepath.Join(l.dir, "s3")
	for _, d := range []string{filepath.Join(l.root, bucket), filepath.Join(l.dir, "meta")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	keys := filepath.Join(l.dir, "keys")
	if err := os.WriteFile(keys, []byte("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	port, err := freeport.Claim(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Release() })
	l.address = port.Address("127.0.0.1")
	l.serve(ctx, t)
	binary := program.Holdfast(t)
	hw, err := localcluster.StartFakeHardware(ctx, binary, l.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	l.cluster, err = localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: filepath.Join(l.dir, "cluster"),
		RaftMultiplier: 2, FakeEndpoint: hw.Endpoint,
		Args: []string{"--archive-url", "s3://" + bucket + "/prod?plain=true&region=us-east-1&endpoint=" + l.address,
			"--archive-credentials-file", keys, "--archive-after", "1s", "--archive-keep-runs", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the S3 server:\n%s", l.server.LogTail(3000))
			for _, p := range l.cluster.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(3000))
			}
		}
		_ = l.cluster.Close()
	})
	return l
}

// serve starts the S3 server and waits until it listens. A bucket is a directory.
func (l *lab) serve(ctx context.Context, t *testing.T) {
	t.Helper()
	var err error
	l.server, err = localcluster.StartProgram("../../bin/versitygw",
		[]string{"--access", "key", "--secret", "secret", "--port", l.address, "posix", "--sidecar",
			filepath.Join(l.dir, "meta"), l.root},
		nil, filepath.Join(l.dir, "s3.log"))
	if err != nil {
		t.Fatalf("%v (make e2e-s3 builds it)", err)
	}
	server := l.server
	t.Cleanup(func() { _ = server.Kill() })
	until(ctx, t, "the S3 server to listen", func() (bool, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.address)
		if err != nil {
			return false, nil // not yet
		}
		return true, conn.Close()
	})
}

// dial returns a client of one peer.
func (l *lab) dial(t *testing.T, p *localcluster.Peer) *client.Client {
	t.Helper()
	api, err := client.Dial(client.Config{Addrs: []string{p.GRPCAddr}, TLS: l.cluster.TLS(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

// run reboots the machine and returns the id of the run.
func (l *lab) run(ctx context.Context, t *testing.T, api *client.Client, request string) string {
	t.Helper()
	run, err := api.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: "m-1", RequestId: request, Type: "REBOOT"})
	if err != nil {
		t.Fatal(err)
	}
	if run, err = api.WaitRun(ctx, run.GetRunId()); err != nil || run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("run %s: %v, %v, want it to succeed", run.GetRunId(), run.GetPhase(), err)
	}
	return run.GetRunId()
}

// archived blocks until the run was archived.
func (l *lab) archived(ctx context.Context, t *testing.T, api *client.Client, id string) {
	t.Helper()
	until(ctx, t, "run "+id+" to be archived", func() (bool, error) {
		run, err := api.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
		return run.GetArchive().GetArchivedAt() != nil, err
	})
}

func (l *lab) log(ctx context.Context, t *testing.T, api *client.Client, id string) string {
	t.Helper()
	log, err := read(ctx, api, id)
	if err != nil {
		t.Errorf("read the log of run %s: %v", id, err)
	}
	return log
}

// read returns the log of an ended run.
func read(ctx context.Context, api *client.Client, id string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	stream, err := api.Runs().StreamRunLogs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: id})
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		b.Write(part.GetData())
	}
}

// until polls until the condition holds.
func until(ctx context.Context, t *testing.T, name string, holds func() (bool, error)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if err != nil {
			t.Fatalf("wait for %s: %v", name, err)
		}
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("wait for %s: timed out", name)
		}
	}
}
