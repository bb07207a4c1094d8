package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestSnapshotVerbs(t *testing.T) {
	f := clitest.Fixture()
	f.Operator = &clitest.Operator{File: clitest.SnapshotFile(t)}
	clitest.Start(t, f)
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
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"operator", "snapshot"}, strings.Fields(tt.args)...)...), tt.code)
		if out := c.Out.String() + c.Err.String(); !strings.Contains(out, tt.want) {
			t.Errorf("operator snapshot %s: got %q, want %q in it", tt.args, out, tt.want)
		}
	}
	if !bytes.Equal(f.Operator.Staged, f.Operator.File) {
		t.Error("got a staged snapshot that differs from the saved one")
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: got %v, %v, want 0600", st.Mode(), err)
	}

	saved, err := fsm.ReadBackup(bytes.NewReader(f.Operator.File))
	if err != nil {
		t.Fatal(err)
	}
	want := []*holdfastv1.NoteSnapshotRequest{{Peer: "p1", SavedAt: saved.Header.GetTakenAt()}}
	var unnoted clitest.Command
	// not a recorded backup
	unnoted.WantCode(t, unnoted.Run(t, f, "--stale", "operator", "snapshot", "save", "--force", path), app.ExitOK)

	// An existing file is not replaced by mistake, and a directory that is missing is named as it
	// was given.
	var kept clitest.Command
	kept.WantCode(t, kept.Run(t, f, "operator", "snapshot", "save", path), app.ExitConflict)
	clitest.WantIn(t, "stderr", kept.Err.String(),
		path+" is there already: choose another name, or replace it with --force")
	kept = clitest.Command{}
	kept.WantCode(t, kept.Run(t, f, "operator", "snapshot", "save", path+".d/x.snap"), app.ExitUsage)
	clitest.WantIn(t, "stderr", kept.Err.String(), "save snapshot: "+path+".d/x.snap: there is no such directory")

	// A peer that breaks the stream leaves the old file unchanged, without a temporary file.
	f.Operator.File = f.Operator.File[:len(f.Operator.File)-20]
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "operator", "snapshot", "save", "--force", path), app.ExitError)
	if diff := cmp.Diff(want, f.Operator.Noted, protocmp.Transform()); diff != "" {
		t.Errorf("recorded backups (-want +got):\n%s", diff)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files: got %v, %v, want only the old one", left, err)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, nil, "operator", "snapshot", "verify", path), app.ExitOK)
	if err := os.WriteFile(path, f.Operator.File, 0o600); err != nil {
		t.Fatal(err)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, nil, "operator", "snapshot", "verify", path), app.ExitError)
	if !strings.Contains(c.Err.String(), "it is damaged") {
		t.Errorf("got %q, want a damaged file", c.Err.String())
	}
}

// TestRestoreHasTime checks that the command waits as long as the peers need, which continue
// without it.
func TestRestoreHasTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.snap")
	if err := os.WriteFile(path, clitest.SnapshotFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args        string
		least, most time.Duration
	}{
		{"", 29 * time.Minute, 30 * time.Minute},
		{" --timeout 5m", 4 * time.Minute, 5 * time.Minute},
	} {
		f := clitest.Fixture()
		f.Operator = &clitest.Operator{}
		clitest.Start(t, f)
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields("operator snapshot restore "+path+" --yes"+tt.args)...), app.ExitOK)
		if got := f.Operator.Left; got < tt.least || got > tt.most {
			t.Errorf("restore%s: got a timeout of %v, want %v to %v", tt.args, got, tt.least, tt.most)
		}
	}
}

// TestRestoreStartsAgain checks that the command sends the upload again after a change of the
// leader, because the new one has no chunks. Under the same leader, the chunks belong to another
// restore and must not be deleted.
func TestRestoreStartsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.snap")
	if err := os.WriteFile(path, clitest.SnapshotFile(t), 0o600); err != nil {
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
		{name: "a new leader each time", changes: 1000, code: app.ExitConflict, calls: 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			f.Operator = &clitest.Operator{Lose: func() error {
				if tt.changes--; tt.changes < 0 {
					return nil
				}
				if !tt.same {
					f.Cluster = &holdfastv1.ClusterStatus{Leader: "peer-2", Term: f.Cluster.GetTerm() + 1, AnsweredBy: "peer-2"}
				}
				return gone.Err()
			}}
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, "operator", "snapshot", "restore", path, "--yes"), tt.code)
			ids := slices.Compact(slices.Sorted(slices.Values(f.Operator.IDs)))
			if len(f.Operator.IDs) != tt.calls || len(ids) != tt.calls {
				t.Errorf("got %d calls with %d ids, want %d with an id each", len(f.Operator.IDs), len(ids), tt.calls)
			}
		})
	}
}

func TestOperatorVerbs(t *testing.T) {
	f := clitest.Fixture()
	f.Operator = &clitest.Operator{Rules: &holdfastv1.AutopilotConfig{MinQuorum: 3,
		DeadServerThreshold: durationpb.New(24 * time.Hour)}}
	clitest.Start(t, f)
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
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), tt.code)
		if out := c.Out.String() + c.Err.String(); !strings.Contains(out, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.args, out, tt.want)
		}
	}
	var again clitest.Command
	again.WantCode(t, again.Run(t, f, "operator", "debug", "-f", archive, "--cpu", "30"), app.ExitError)
	clitest.WantIn(t, "stderr", again.Err.String(), "file exists")
	if f.Debugs != 1 {
		t.Errorf("got %d calls of CollectDebug, want 1: not one that profiles for a file that exists", f.Debugs)
	}
	f.Operator.Sick = true
	for format, want := range map[string]string{
		"table": "does not answer: refused", "json": `"failure_tolerance": 0`, "yaml": "does not answer: refused",
		"name": "p1", "jsonpath=.peers[0].why": "does not answer: refused", "go-template={{len .peers}}": "1",
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "operator", "autopilot", "state", "-o", format), app.ExitUnavailable)
		clitest.WantIn(t, "state -o "+format, c.Out.String(), want)
	}
}
