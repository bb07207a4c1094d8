package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// putBack is a way to give a peer an old state of its data directory.
type putBack struct {
	name    string
	running bool // the old state is that of a running peer; else it had stopped
	files   []string
	// reverted keeps the files and replaces their contents, as on a disk that is reverted to a
	// snapshot. Else they are a copy.
	reverted bool
	says     string // what the peer logs
	ends     bool   // with that
	short    bool   // also under -short
}

// TestDirectoryPutBack gives a peer an old state of its data directory while only it and a peer
// that was away are up: together a majority, which lacks acknowledged writes. They must not lead.
// When the third one returns, all writes are there, and the peer votes again.
func TestDirectoryPutBack(t *testing.T) {
	const old = "older than what the peer has acknowledged: peer n2 remembers a later state"
	for _, tt := range []putBack{
		{name: "disk reverted", reverted: true, says: old, ends: true, short: true},
		{name: "disk reverted to a running peer", running: true, reverted: true, says: old, ends: true},
		{name: "copy", says: old, ends: true},
		{name: "copy of a running peer", running: true, says: "is a copy that was made while the peer ran", short: true},
		{name: "raft.db reverted", reverted: true, files: []string{"raft.db"}, says: old, ends: true},
		{name: "copy of raft.db", files: []string{"raft.db"}, says: old, ends: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.short {
				long(t)
			}
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), 3*harness.Patience)
			defer stop()
			c, err := localcluster.Start(ctx, localcluster.Config{Binary: bench.Binary, Dir: t.TempDir(), Insecure: true,
				RaftMultiplier: 0.5})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			n1, n2, n3 := c.Peers()[0], c.Peers()[1], c.Peers()[2]
			write(t, n1, "m-base")
			kept := filepath.Join(t.TempDir(), "kept")
			end := n3.Kill
			if !tt.running {
				end = func() error { return n3.Stop(ctx) }
			}
			save := func() error { return os.CopyFS(kept, os.DirFS(n3.DataDir)) }
			steps := []func() error{end, save}
			if tt.running {
				steps = []func() error{save, end}
			}
			for _, do := range append(steps, func() error { return n3.Start(ctx) }) {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
			remembered(t, n3, n1, n2)
			kill(t, n2)
			for i := range 6 {
				write(t, n1, fmt.Sprintf("m-by-two-%d", i))
			}
			kill(t, n1)
			kill(t, n3)
			if err := tt.put(kept, n3.DataDir); err != nil {
				t.Fatal(err)
			}
			start(t, n2)
			start(t, n3)
			harness.Until(t, "the peer with the old directory to say why it does not vote", func() (bool, any) {
				log := n3.LogTail(1 << 16)
				return strings.Contains(log, tt.says) && n3.Running() != tt.ends, log
			})
			if tt.ends {
				start(t, n3)
			}
			if err := try(t, n2, "m-by-the-others"); err == nil {
				t.Error("a write without the peer that has all entries: got no error")
			}
			harness.Until(t, "the peer to show its warning", func() (bool, any) {
				p, _, err := shown(t, n2, n3.ID)
				return strings.Contains(p.GetWarning(), "votes again once it has caught up"), fmt.Sprint(p, err)
			})
			start(t, n1)
			harness.Until(t, "the acknowledged writes", func() (bool, any) {
				err := reads(t, n2, "m-base", 6)
				return err == nil, err
			})
			harness.Until(t, "the peer to vote again", func() (bool, any) {
				p, tolerance, err := shown(t, n1, n3.ID)
				return tolerance == 1 && p.GetMayVote() && p.GetWarning() == "", fmt.Sprint(p, err)
			})
			if err := reads(t, n3, "m-base", 6); err != nil {
				t.Errorf("read at the peer that has caught up: %v", err)
			}
		})
	}
}

// put puts files back.
func (p putBack) put(kept, dir string) error {
	if len(p.files) == 0 && !p.reverted {
		return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept)))
	}
	if len(p.files) == 0 {
		if err := removeOthers(kept, dir); err != nil {
			return err
		}
	}
	return filepath.WalkDir(kept, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(kept, path)
		if err != nil || len(p.files) > 0 && name != p.files[0] {
			return err
		}
		data, err := os.ReadFile(path)
		to := filepath.Join(dir, name)
		if err == nil && !p.reverted {
			err = os.Remove(to)
		}
		return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600))
	})
}

// removeOthers removes the files of a directory that another one does not have.
func removeOthers(kept, dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if _, missing := os.Stat(filepath.Join(kept, name)); missing != nil {
			return os.Remove(path)
		}
		return nil
	})
}

// TestDirectoryOfAnotherPeer starts a peer with a copy of another one's directory, whole and
// without its identity.
func TestDirectoryOfAnotherPeer(t *testing.T) {
	t.Parallel()
	p := stoppedPeer(t)
	args := arguments(p, "--node-id", "n7")
	refusedStart(t, p, args, `belongs to peer "n1"`, "start it with its own directory")
	file := filepath.Join(p.DataDir, "identity.json")
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(b), `"n1"`, `"n7"`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, stderr := bench.Run(t, args...); code == 0 || !strings.Contains(stderr, `the raft log is of peer "n1"`) ||
		!strings.Contains(stderr, cluster.DamageAdvice) {
		t.Errorf("got exit code %d, want a refusal with the advice; stderr:\n%s", code, stderr)
	}
}

func start(t *testing.T, p *localcluster.Peer) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func kill(t *testing.T, p *localcluster.Peer) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// remembered waits until other peers remember the newest mark of a peer.
func remembered(t *testing.T, p *localcluster.Peer, by ...*localcluster.Peer) {
	t.Helper()
	harness.Until(t, "the others to remember the mark of the peer", func() (bool, any) {
		g, err := greeting(t, p)
		for _, o := range by {
			var other *internalv1.Greeting
			if err == nil {
				other, err = greeting(t, o)
			}
			if err != nil || other.GetKnown()[p.ID].GetCount() != g.GetMarks().GetCount() {
				return false, fmt.Sprint(g, other, err)
			}
		}
		return true, nil
	})
}

func greeting(t *testing.T, p *localcluster.Peer) (g *internalv1.Greeting, err error) {
	t.Helper()
	err = at(t, p, func(ctx context.Context, conn *grpc.ClientConn) error {
		r, err := internalv1.NewPeerServiceClient(conn).Meet(ctx, &internalv1.MeetRequest{})
		g = r.GetGreeting()
		return err
	})
	return g, err
}

// reads reads a machine and a number of those that two peers have written.
func reads(t *testing.T, p *localcluster.Peer, base string, n int) error {
	t.Helper()
	return at(t, p, func(ctx context.Context, conn *grpc.ClientConn) error {
		m := holdfastv1.NewMachineServiceClient(conn)
		_, err := m.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: base})
		for i := 0; i < n && err == nil; i++ {
			_, err = m.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: fmt.Sprintf("m-by-two-%d", i)})
		}
		return err
	})
}

// shown returns a peer in the status that another one shows.
func shown(t *testing.T, p *localcluster.Peer, id string) (of *holdfastv1.Peer, tolerance int32, err error) {
	t.Helper()
	err = at(t, p, func(ctx context.Context, conn *grpc.ClientConn) error {
		st, err := holdfastv1.NewClusterServiceClient(conn).GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		for _, peer := range st.GetPeers() {
			if peer.GetId() == id {
				of = peer
			}
		}
		tolerance = st.GetFailureTolerance()
		return err
	})
	return of, tolerance, err
}

// at calls a peer.
func at(t *testing.T, p *localcluster.Peer, do func(context.Context, *grpc.ClientConn) error) error {
	t.Helper()
	conn, err := grpc.NewClient(p.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	return do(ctx, conn)
}
