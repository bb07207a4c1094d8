package failpoint

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
)

// restored is a cluster to which an operator restores the same snapshot repeatedly.
type restored struct {
	*lab.Lab
	s            Switches
	binary, file string
}

// Machines registered before and after the snapshot was saved.
var (
	kept = []string{"kept-1", "kept-2", "kept-3"}
	late = []string{"late-1", "late-2"}
)

// death describes how a peer dies during a restore, and the expected result.
type death struct {
	name, point string
	// kill is nil if the peer that reaches the point kills itself.
	kill     func(ctx context.Context, r *restored, at *localcluster.Peer) error
	want     []string // the machines after it
	succeeds bool     // the command reports success
}

func deaths() []death {
	before, after := slices.Concat(kept, late), kept
	return []death{
		{name: "the leader while another peer reads", point: "stage-to-read", want: before,
			kill: func(ctx context.Context, r *restored, _ *localcluster.Peer) error {
				leader, err := r.Leader(ctx)
				if err != nil {
					return err
				}
				return leader.Kill()
			}},
		{name: "another peer while it reads", point: "stage-to-read", want: after, succeeds: true,
			kill: func(_ context.Context, _ *restored, at *localcluster.Peer) error { return at.Kill() }},
		{name: "the leader when all have read", point: "stage-read", want: before},
		{name: "the leader when it is committed", point: "restore-committed", want: after},
	}
}

// crashRestore kills a peer during a restore. All peers must then have either the old or the new
// state, and never a mixture. The command must report success or the next action, and a repetition
// of it must succeed.
func crashRestore(t *testing.T, binary string, points []string) {
	r := &restored{binary: binary, file: filepath.Join(t.TempDir(), "a.snap")}
	r.Lab, r.s = open(t, binary, nil, points...)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := r.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(ctx, kept...); err != nil {
		t.Fatal(err)
	}
	if out, err := r.operator(ctx, "operator", "snapshot", "save", r.file); err != nil {
		t.Fatalf("save a snapshot: %v\n%s", err, out)
	}
	for _, d := range deaths() {
		if slices.Contains(points, d.point) {
			t.Run(d.name, func(t *testing.T) { r.crash(t, d) })
		}
	}
	if out, err := r.operator(t.Context(), "audit", "verify"); err != nil {
		t.Errorf("verify the audit trail: %v\n%s", err, out)
	}
}

// crash runs a restore during which one peer dies.
func (r *restored) crash(t *testing.T, d death) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := r.Register(ctx, late...); err != nil {
		t.Fatal(err)
	}
	before := r.Deaths()
	if err := r.s.Arm(d.point); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		out string
		err error
	}
	answers := make(chan answer, 1)
	args := []string{"operator", "snapshot", "restore", "--yes", r.file}
	if d.succeeds { // ask the leader, which survives: the answer of another peer could be lost with it
		leader, err := r.Leader(ctx)
		if err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--addr", leader.GRPCAddr}, args...)
	}
	go func() {
		out, err := r.operator(ctx, args...)
		answers <- answer{out, err}
	}()
	if err := lab.Until(ctx, "a peer to reach "+d.point,
		func() bool { _, ok := r.s.PID(d.point); return ok }); err != nil {
		t.Fatal(err)
	}
	if d.kill != nil {
		r.killAt(ctx, t, d)
	}
	err := lab.Until(ctx, "a peer to die at "+d.point, func() bool { return r.Deaths() > before })
	if _, derr := r.s.Disarm(d.point); err != nil || derr != nil {
		t.Fatal(errors.Join(err, derr))
	}
	a := <-answers
	if err := r.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := r.Deaths() - before; n != 1 {
		t.Errorf("got %d dead peers, want 1", n)
	}
	r.checkAnswer(t, d, a.out, a.err)
	want := d.want
	if a.err == nil {
		want = kept // the command sends the file again if the leader dies before the restore begins
	}
	r.same(ctx, t, want)
	r.again(ctx, t)
	r.same(ctx, t, kept)
}

// killAt kills a peer while the peer at the point is stopped, and resumes that one.
func (r *restored) killAt(ctx context.Context, t *testing.T, d death) {
	t.Helper()
	pid, _ := r.s.PID(d.point)
	i := slices.IndexFunc(r.Peers(), func(p *localcluster.Peer) bool { return p.PID() == pid })
	if i < 0 {
		t.Fatalf("process %d reached %s, but belongs to no peer", pid, d.point)
	}
	at := r.Peers()[i]
	if leader, err := r.Leader(ctx); err != nil || leader == at {
		t.Fatalf("peer %s reads the staged snapshot: want a follower, got the leader, or error %v", at.ID, err)
	}
	if err := d.kill(ctx, r, at); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}

// checkAnswer checks the exit status and output of the restore.
func (r *restored) checkAnswer(t *testing.T, d death, out string, err error) {
	t.Helper()
	switch {
	case err != nil && d.succeeds:
		t.Errorf("restore: %v\n%s", err, out)
	case err != nil && !strings.Contains(out, "restart the upload") && !strings.Contains(out, "before you repeat it"):
		t.Errorf("restore: the error names no remedy: %v\n%s", err, out)
	}
	t.Logf("output of the restore (%v):\n%s", err, out)
}

// same checks that every peer lists exactly these machines and that all states are equal.
func (r *restored) same(ctx context.Context, t *testing.T, want []string) {
	t.Helper()
	for _, p := range r.Peers() {
		out, err := r.operator(ctx, "--addr", p.GRPCAddr, "machine", "list", "-o", "name")
		if got := strings.Fields(strings.ReplaceAll(out, "machine/", "")); err != nil || !slices.Equal(got, want) {
			t.Errorf("machines of peer %s: got %v, %v, want %v", p.ID, got, err, want)
		}
	}
	for _, err := range check.States(ctx, r.Target()) {
		t.Error(err)
	}
}

// outcomeUnknown is the exit code of a command whose effect is unknown.
const outcomeUnknown = 7

// again repeats the command, as its message advised, while its outcome is unknown: on a busy
// machine the leader may change again.
func (r *restored) again(ctx context.Context, t *testing.T) {
	t.Helper()
	err := lab.Until(ctx, "the restore to succeed", func() bool {
		out, err := r.operator(ctx, "operator", "snapshot", "restore", "--yes", r.file)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == outcomeUnknown && ctx.Err() == nil {
			t.Logf("outcome of the repeated restore is unknown (%v):\n%s", err, out)
			return false
		}
		if err != nil {
			t.Errorf("restore again: %v\n%s", err, out)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// operator runs the holdfast command.
func (r *restored) operator(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HOLDFAST_") })
	f := r.Files()
	cmd.Env = append(cmd.Env, "HOME="+filepath.Dir(r.file), "HOLDFAST_ADDR="+strings.Join(r.Addrs(), ","),
		"HOLDFAST_CA="+f.CA, "HOLDFAST_CERT="+f.AdminCert, "HOLDFAST_KEY="+f.AdminKey)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
