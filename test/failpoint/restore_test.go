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

// restored is a cluster to which an operator gives back a snapshot, again and again.
type restored struct {
	*lab.Lab
	s            Switches
	binary, file string
}

// What machines there are: those of the snapshot, and those who came after it.
var (
	kept = []string{"kept-1", "kept-2", "kept-3"}
	late = []string{"late-1", "late-2"}
)

// death is who dies in the middle of a restore, and what must come of it.
type death struct {
	name, point string
	// nil: who comes to the point dies by himself
	kill     func(ctx context.Context, r *restored, at *localcluster.Peer) error
	want     []string // the machines after it
	succeeds bool     // the operator hears that it is done
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

// crashRestore kills a peer in the middle of a restore. Whoever it is, the state is the old one or
// the new one as a whole, the same on all peers; the operator is told that it is done, or what to
// do; and when he does it the restore comes to its end.
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
		t.Errorf("the audit trail: %v\n%s", err, out)
	}
}

// crash lets one die.
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
	said := make(chan answer, 1)
	args := []string{"operator", "snapshot", "restore", r.file}
	if d.succeeds { // he asks the one who does not die: with any other peer that he asks his answer could die, too
		leader, err := r.Leader(ctx)
		if err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--addr", leader.GRPCAddr}, args...)
	}
	go func() {
		out, err := r.operator(ctx, args...)
		said <- answer{out, err}
	}()
	if err := lab.Until(ctx, "a peer to come to "+d.point,
		func() bool { _, ok := r.s.PID(d.point); return ok }); err != nil {
		t.Fatal(err)
	}
	if d.kill != nil {
		r.killed(ctx, t, d)
	}
	err := lab.Until(ctx, "a peer to die at "+d.point, func() bool { return r.Deaths() > before })
	if _, derr := r.s.Disarm(d.point); err != nil || derr != nil {
		t.Fatal(errors.Join(err, derr))
	}
	a := <-said
	if err := r.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := r.Deaths() - before; n != 1 {
		t.Errorf("%d peers have died, want one", n)
	}
	r.told(t, d, a.out, a.err)
	if a.err == nil {
		// The command sends the file again when the leader dies before the restore begins.
		r.same(ctx, t, kept)
	} else {
		r.same(ctx, t, d.want)
	}
	r.again(ctx, t)
	r.same(ctx, t, kept)
}

// killed kills whom the test wants dead while a peer stands still, and lets that one go on.
func (r *restored) killed(ctx context.Context, t *testing.T, d death) {
	t.Helper()
	pid, _ := r.s.PID(d.point)
	i := slices.IndexFunc(r.Peers(), func(p *localcluster.Peer) bool { return p.PID() == pid })
	if i < 0 {
		t.Fatalf("process %d came to %s, and is no peer's", pid, d.point)
	}
	at := r.Peers()[i]
	if leader, err := r.Leader(ctx); err != nil || leader == at {
		t.Fatalf("peer %s reads what is staged: it leads, or %v", at.ID, err)
	}
	if err := d.kill(ctx, r, at); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}

// told holds what the operator has heard against what became of it.
func (r *restored) told(t *testing.T, d death, out string, err error) {
	t.Helper()
	switch {
	case err != nil && d.succeeds:
		t.Errorf("the restore has failed: %v\n%s", err, out)
	case err != nil && !strings.Contains(out, "restart the upload") && !strings.Contains(out, "before you repeat it"):
		t.Errorf("the restore has failed without saying what to do: %v\n%s", err, out)
	}
	t.Logf("the operator was told (%v):\n%s", err, out)
}

// same makes sure that these machines are there, and no others, on each peer, and that all that
// peers have is the same.
func (r *restored) same(ctx context.Context, t *testing.T, want []string) {
	t.Helper()
	for _, p := range r.Peers() {
		out, err := r.operator(ctx, "--addr", p.GRPCAddr, "machine", "list", "-o", "name")
		if got := strings.Fields(strings.ReplaceAll(out, "machine/", "")); err != nil || !slices.Equal(got, want) {
			t.Errorf("peer %s has %v, %v, want %v", p.ID, got, err, want)
		}
	}
	for _, err := range check.States(ctx, r.Target()) {
		t.Error(err)
	}
}

// outcomeUnknown is the exit code of a command whose effect is unknown.
const outcomeUnknown = 7

// again runs the same command again, as its message advised, and repeats it while its outcome is
// unknown: on a busy machine the leadership may change once more.
func (r *restored) again(ctx context.Context, t *testing.T) {
	t.Helper()
	err := lab.Until(ctx, "the restore to succeed", func() bool {
		out, err := r.operator(ctx, "operator", "snapshot", "restore", r.file)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == outcomeUnknown && ctx.Err() == nil {
			t.Logf("restored again (%v):\n%s", err, out)
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

// operator runs a command of his.
func (r *restored) operator(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HOLDFAST_") })
	f := r.Files()
	cmd.Env = append(cmd.Env, "HOME="+filepath.Dir(r.file), "HOLDFAST_ADDR="+strings.Join(r.Addrs(), ","),
		"HOLDFAST_CA="+f.CA, "HOLDFAST_CERT="+f.AdminCert, "HOLDFAST_KEY="+f.AdminKey)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
