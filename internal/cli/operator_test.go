package cli

import (
	"bytes"
	stdcmp "cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// fakeOperator is the OperatorService of a fakeCluster. It stores staged snapshots, and a restore
// reads them like a leader.
type fakeOperator struct {
	holdfastv1.UnimplementedOperatorServiceServer

	mu     sync.Mutex
	file   []byte // sent by SaveSnapshot
	staged []byte
	noted  []*holdfastv1.NoteSnapshotRequest
	rules  *holdfastv1.AutopilotConfig
	sick   bool
	left   time.Duration // remaining time of the last restore
	ids    []string      // restore ids of all calls of RestoreSnapshot
	lose   func() error  // called by each RestoreSnapshot, which returns its error
}

func (f *fakeOperator) SaveSnapshot(
	_ *holdfastv1.SaveSnapshotRequest, s grpc.ServerStreamingServer[holdfastv1.SnapshotData],
) error {
	for file := f.file; len(file) > 0; file = file[min(1000, len(file)):] {
		if err := s.Send(&holdfastv1.SnapshotData{Data: file[:min(1000, len(file))]}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeOperator) NoteSnapshot(
	_ context.Context, r *holdfastv1.NoteSnapshotRequest,
) (*holdfastv1.NoteSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted = append(f.noted, r)
	return &holdfastv1.NoteSnapshotResponse{}, nil
}

func (f *fakeOperator) StageSnapshot(
	_ context.Context, r *holdfastv1.StageSnapshotRequest,
) (*holdfastv1.StageSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.GetSequence() == 0 {
		f.staged = nil
	}
	f.staged = append(f.staged, r.GetData()...)
	return &holdfastv1.StageSnapshotResponse{}, nil
}

func (f *fakeOperator) RestoreSnapshot(
	ctx context.Context, r *holdfastv1.RestoreSnapshotRequest,
) (*holdfastv1.RestoreSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, r.GetRestoreId())
	if f.lose != nil {
		if err := f.lose(); err != nil {
			return nil, err
		}
	}
	if end, ok := ctx.Deadline(); ok {
		f.left = time.Until(end)
	}
	b, err := fsm.ReadBackup(bytes.NewReader(f.staged))
	if err != nil {
		return nil, err
	}
	return &holdfastv1.RestoreSnapshotResponse{ClusterId: b.Header.GetClusterId(), Index: b.Header.GetIndex(),
		TakenAt: b.Header.GetTakenAt(), Machines: 1, EndedRuns: []string{"run-1"}}, nil
}

func (f *fakeOperator) TransferLeadership(
	_ context.Context, r *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	return &holdfastv1.TransferLeadershipResponse{From: "p1", To: stdcmp.Or(r.GetTo(), "p2"),
		Took: durationpb.New(12 * time.Millisecond)}, nil
}

func (f *fakeOperator) RemovePeer(
	context.Context, *holdfastv1.RemovePeerRequest,
) (*holdfastv1.RemovePeerResponse, error) {
	return &holdfastv1.RemovePeerResponse{}, nil
}

func (f *fakeOperator) AdmitPeer(
	_ context.Context, r *holdfastv1.AdmitPeerRequest,
) (*holdfastv1.AdmitPeerResponse, error) {
	if r.GetId() == "n-gone" {
		return nil, status.Error(codes.Unavailable, "gone")
	}
	return &holdfastv1.AdmitPeerResponse{}, nil
}

func (f *fakeOperator) GetAutopilot(context.Context, *holdfastv1.GetAutopilotRequest) (*holdfastv1.Autopilot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &holdfastv1.Autopilot{Config: f.rules, Healthy: !f.sick, FailureTolerance: 1,
		Peers: []*holdfastv1.AutopilotPeer{{Id: "p1", Suffrage: "voter", Healthy: !f.sick}}}
	if f.sick {
		a.Peers[0].Why, a.Peers[0].Since, a.FailureTolerance = "does not answer: refused",
			timestamppb.New(now().Add(-time.Minute)), 0
	}
	return a, nil
}

func (f *fakeOperator) SetAutopilot(
	ctx context.Context, r *holdfastv1.SetAutopilotRequest,
) (*holdfastv1.Autopilot, error) {
	f.mu.Lock()
	f.rules = r.GetConfig()
	f.mu.Unlock()
	return f.GetAutopilot(ctx, nil)
}

func (f *fakeOperator) ResetClock(
	_ context.Context, r *holdfastv1.ResetClockRequest,
) (*holdfastv1.ResetClockResponse, error) {
	if !r.GetDryRun() && r.GetTime() == nil {
		return nil, status.Error(codes.InvalidArgument, "no time")
	}
	return &holdfastv1.ResetClockResponse{Before: timestamppb.New(now().Add(50 * time.Minute)),
		Leader: timestamppb.New(now())}, nil
}

func (f *fakeCluster) CollectDebug(
	_ *holdfastv1.CollectDebugRequest, s grpc.ServerStreamingServer[holdfastv1.DebugFile],
) error {
	f.debugs++
	for _, part := range []*holdfastv1.DebugFile{{Name: "about.txt", Data: []byte("peer ")},
		{Name: "about.txt", Data: []byte("p1\n")}, {Name: "../../etc/evil", Data: []byte("x")}} {
		if err := s.Send(part); err != nil {
			return err
		}
	}
	return nil
}

func snapshotFile(t *testing.T) []byte {
	t.Helper()
	p := fsmtest.NewPeer()
	p.Do(&internalv1.InitCluster{ClusterId: "c-1"})
	p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}})
	p.Do(&internalv1.PutSecret{Secret: &internalv1.StoredSecret{Secret: &holdfastv1.Secret{Name: "bmc", Type: "bmc",
		Keys: []string{"password", "username"}, Version: 1},
		Sealed: &internalv1.Sealed{KeyId: "k1", Nonce: []byte("n"), Ciphertext: []byte("c")}}})
	b, err := fsmtest.Backup(p.View())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSnapshotVerbs(t *testing.T) {
	f := fixture()
	f.operator = &fakeOperator{file: snapshotFile(t)}
	startCluster(t, f)
	path := filepath.Join(t.TempDir(), "a.snap")
	for _, tt := range []struct {
		args string
		code int
		want string // in the output
	}{
		{"save " + path, app.ExitOK, "cluster c-1 at index"},
		{"verify " + path, app.ExitOK, "is whole"},
		{"inspect " + path, app.ExitOK, "secrets keys   k1"},
		{"inspect " + path, app.ExitOK, "machines             1"},
		{"restore " + path + " --yes", app.ExitOK, "active in the snapshot, now FAILED: run-1"},
		{"restore " + path + ".none --yes", app.ExitUsage, "no such file"},
		{"save", app.ExitUsage, "FILE is missing"},
	} {
		var c command
		c.wantCode(t, c.run(t, f, append([]string{"operator", "snapshot"}, strings.Fields(tt.args)...)...), tt.code)
		if out := c.out.String() + c.err.String(); !strings.Contains(out, tt.want) {
			t.Errorf("operator snapshot %s: got %q, want %q in it", tt.args, out, tt.want)
		}
	}
	if !bytes.Equal(f.operator.staged, f.operator.file) {
		t.Error("got a staged snapshot that differs from the saved one")
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: got %v, %v, want 0600", st.Mode(), err)
	}

	saved, err := fsm.ReadBackup(bytes.NewReader(f.operator.file))
	if err != nil {
		t.Fatal(err)
	}
	want := []*holdfastv1.NoteSnapshotRequest{{Peer: "p1", SavedAt: saved.Header.GetTakenAt()}}
	var unnoted command
	// not a recorded backup
	unnoted.wantCode(t, unnoted.run(t, f, "--stale", "operator", "snapshot", "save", "--force", path), app.ExitOK)

	// An existing file is not replaced by mistake, and a directory that is missing is named as it
	// was given.
	var kept command
	kept.wantCode(t, kept.run(t, f, "operator", "snapshot", "save", path), app.ExitConflict)
	wantIn(t, "stderr", kept.err.String(), path+" is there already: choose another name, or replace it with --force")
	kept = command{}
	kept.wantCode(t, kept.run(t, f, "operator", "snapshot", "save", path+".d/x.snap"), app.ExitUsage)
	wantIn(t, "stderr", kept.err.String(), "save snapshot: "+path+".d/x.snap: there is no such directory")

	// A peer that breaks the stream leaves the old file unchanged, without a temporary file.
	f.operator.file = f.operator.file[:len(f.operator.file)-20]
	var c command
	c.wantCode(t, c.run(t, f, "operator", "snapshot", "save", "--force", path), app.ExitError)
	if diff := cmp.Diff(want, f.operator.noted, protocmp.Transform()); diff != "" {
		t.Errorf("recorded backups (-want +got):\n%s", diff)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files: got %v, %v, want only the old one", left, err)
	}
	c = command{}
	c.wantCode(t, c.run(t, nil, "operator", "snapshot", "verify", path), app.ExitOK)
	if err := os.WriteFile(path, f.operator.file, 0o600); err != nil {
		t.Fatal(err)
	}
	c = command{}
	c.wantCode(t, c.run(t, nil, "operator", "snapshot", "verify", path), app.ExitError)
	if !strings.Contains(c.err.String(), "it is damaged") {
		t.Errorf("got %q, want a damaged file", c.err.String())
	}
}

// TestRestoreHasTime checks that the command waits as long as the peers need, which continue
// without it.
func TestRestoreHasTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.snap")
	if err := os.WriteFile(path, snapshotFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args        string
		least, most time.Duration
	}{
		{"", restoreTimeout - time.Minute, restoreTimeout},
		{" --timeout 5m", 4 * time.Minute, 5 * time.Minute},
	} {
		f := fixture()
		f.operator = &fakeOperator{}
		startCluster(t, f)
		var c command
		c.wantCode(t, c.run(t, f, strings.Fields("operator snapshot restore "+path+" --yes"+tt.args)...), app.ExitOK)
		if got := f.operator.left; got < tt.least || got > tt.most {
			t.Errorf("restore%s: got a timeout of %v, want %v to %v", tt.args, got, tt.least, tt.most)
		}
	}
}

// TestRestoreStartsAgain checks that the command sends the upload again after a change of the
// leader, because the new one has no chunks. Under the same leader, the chunks belong to another
// restore and must not be deleted.
func TestRestoreStartsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.snap")
	if err := os.WriteFile(path, snapshotFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	gone, err := status.New(codes.Aborted, "restore has 0 of 1 chunks staged").WithDetails(
		&errdetails.ErrorInfo{Domain: client.ErrorDomain, Reason: fsm.ReasonStageGone})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		changes int // changes of the leader, each between an upload and its restore
		same    bool
		code    int
		calls   int
	}{
		{name: "two new leaders", changes: 2, code: app.ExitOK, calls: 3},
		{name: "another restore", changes: 1, same: true, code: app.ExitConflict, calls: 1},
		{name: "a new leader each time", changes: 1000, code: app.ExitConflict, calls: uploads},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fixture()
			f.operator = &fakeOperator{lose: func() error {
				if tt.changes--; tt.changes < 0 {
					return nil
				}
				if !tt.same {
					f.cluster = &holdfastv1.ClusterStatus{Leader: "peer-2", Term: f.cluster.GetTerm() + 1, AnsweredBy: "peer-2"}
				}
				return gone.Err()
			}}
			startCluster(t, f)
			var c command
			c.wantCode(t, c.run(t, f, "operator", "snapshot", "restore", path, "--yes"), tt.code)
			ids := slices.Compact(slices.Sorted(slices.Values(f.operator.ids)))
			if len(f.operator.ids) != tt.calls || len(ids) != tt.calls {
				t.Errorf("got %d calls with %d ids, want %d with an id each", len(f.operator.ids), len(ids), tt.calls)
			}
		})
	}
}

func TestOperatorVerbs(t *testing.T) {
	f := fixture()
	f.operator = &fakeOperator{rules: &holdfastv1.AutopilotConfig{MinQuorum: 3,
		DeadServerThreshold: durationpb.New(24 * time.Hour)}}
	startCluster(t, f)
	archive := filepath.Join(t.TempDir(), "debug.tar.gz")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"operator raft transfer-leadership", app.ExitOK, "p2 leads now, p1 has handed over (12ms)"},
		{"operator raft transfer-leadership --to p3", app.ExitOK, "p3 leads now"},
		{"peer admit n4", app.ExitOK, "peer n4 may join"},
		{"operator raft remove-peer p3 --yes", app.ExitOK,
			"peer p3 is no member any more, and its certificates are denied"},
		{"operator raft list-peers -o name", app.ExitOK, "peer-1"},
		{"operator autopilot state", app.ExitOK, "voter"},
		{"operator autopilot get-config", app.ExitOK, "dead-server-threshold  24h0m0s"},
		{"operator autopilot set-config --cleanup-dead-servers", app.ExitOK,
			"cleanup-dead-servers   true\ndead-server-threshold  24h0m0s\nmin-quorum             3"},
		{"operator debug -f " + archive, app.ExitOK, "2 files"},
		{"operator clock show", app.ExitOK, "ahead   50m0s"},
		{"operator clock reset", app.ExitOK, "the replicated clock was set"},
		{"operator raft verify", app.ExitUsage, "--data-dir is missing"},
		{"operator raft verify --data-dir /nowhere", app.ExitUsage, "not the data directory of a peer"},
		{"operator recover", app.ExitUsage, "--data-dir is missing"},
		{"operator recover --data-dir /nowhere", app.ExitUsage, "check with --dry-run, then pass --yes"},
		{"operator recover --data-dir /nowhere --dry-run", app.ExitUsage, "not the data directory of a peer"},
	} {
		var c command
		c.wantCode(t, c.run(t, f, strings.Fields(tt.args)...), tt.code)
		if out := c.out.String() + c.err.String(); !strings.Contains(out, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.args, out, tt.want)
		}
	}
	var again command
	again.wantCode(t, again.run(t, f, "operator", "debug", "-f", archive, "--cpu", "30"), app.ExitError)
	wantIn(t, "stderr", again.err.String(), "file exists")
	if f.debugs != 1 {
		t.Errorf("got %d calls of CollectDebug, want 1: not one that profiles for a file that exists", f.debugs)
	}
	f.operator.sick = true
	for format, want := range map[string]string{
		"table": "does not answer: refused", "json": `"failure_tolerance": 0`, "yaml": "does not answer: refused",
		"name": "p1", "jsonpath=.peers[0].why": "does not answer: refused", "go-template={{len .peers}}": "1",
	} {
		var c command
		c.wantCode(t, c.run(t, f, "operator", "autopilot", "state", "-o", format), app.ExitUnavailable)
		wantIn(t, "state -o "+format, c.out.String(), want)
	}
}

func TestUnsafe(t *testing.T) {
	up := func(id string) *holdfastv1.Peer {
		return &holdfastv1.Peer{Id: id, Suffrage: "voter", MayVote: true, Alive: true}
	}
	for name, tt := range map[string]struct {
		s    *holdfastv1.ClusterStatus
		want string
	}{
		"safe": {&holdfastv1.ClusterStatus{Leader: "p1", FailureTolerance: 1,
			Peers: []*holdfastv1.Peer{up("p1"), up("p2"), up("p3")}}, ""},
		"no leader": {&holdfastv1.ClusterStatus{FailureTolerance: 1}, "there is no leader"},
		"one peer down": {&holdfastv1.ClusterStatus{Leader: "p1", Peers: []*holdfastv1.Peer{up("p1"), up("p2"),
			{Id: "p3", Suffrage: "voter", Error: "refused"}}}, "peer p3: refused"},
		"alone": {&holdfastv1.ClusterStatus{Leader: "p1", Peers: []*holdfastv1.Peer{up("p1")}},
			"there are too few voters for one of them to fail"},
	} {
		if got := unsafe(tt.s); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
