package integrations

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/test/program"
)

// lab is a directory with the binary, and an environment in which `holdfast` uses its own ports.
type lab struct {
	*testing.T
	dir        string
	env        []string
	grpc, http string
}

// newLab builds the binary and reserves ports.
func newLab(t *testing.T) *lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a build takes long on a busy machine
	defer cancel()
	l := &lab{T: t, dir: t.TempDir()}
	bin := filepath.Join(l.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program.Holdfast(t), filepath.Join(bin, "holdfast")); err != nil {
		t.Fatal(err)
	}
	block, err := freeport.Claim(ctx, 13) // the page of a cluster uses those after the first four
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = block.Release() })
	at := func() string { return block.Address("127.0.0.1") }
	l.grpc, l.http = at(), at()
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HOLDFAST_") && !strings.HasPrefix(e, "ANSIBLE_") && !strings.HasPrefix(e, "HOME=") &&
			!strings.HasPrefix(e, "PATH=") {
			l.env = append(l.env, e)
		}
	}
	l.env = append(l.env, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+l.dir, "HOLDFAST_ADDR="+l.grpc,
		"HOLDFAST_GRPC_ADDR="+l.grpc, "HOLDFAST_HTTP_ADDR="+l.http,
		"HOLDFAST_RAFT_ADDR="+at(), "HOLDFAST_GOSSIP_ADDR="+at())
	return l
}

// try runs a program in the lab's directory.
func (l *lab) try(env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(l.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = l.dir, slices.Concat(l.env, env)
	cmd.WaitDelay = 10 * time.Second // processes of a script may hold its output open
	if found, err := exec.LookPath(filepath.Join(l.dir, "bin", name)); err == nil {
		cmd.Path, cmd.Err = found, nil
	}
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, failed.String())
	}
	return string(out), err
}

// run is like try but fails the test if the program fails.
func (l *lab) run(name string, args ...string) string {
	l.Helper()
	out, err := l.try(nil, name, args...)
	if err != nil {
		l.Fatal(err)
	}
	return out
}

// serve starts a peer, and waits until it is ready.
func (l *lab) serve() {
	l.Helper()
	log := l.start("--dev")
	for deadline := time.Now().Add(time.Minute); ; {
		resp, err := http.Get("http://" + l.http + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			l.Fatalf("wait for the peer to be ready: %v\n%s", err, text)
		}
		time.Sleep(50 * time.Millisecond) // sleep: between polls of another process
	}
}

// start starts a peer, and returns the file of its output.
func (l *lab) start(args ...string) string {
	l.Helper()
	log, err := os.Create(filepath.Join(l.dir, "peer.log"))
	if err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(l.dir, "bin", "holdfast"), append([]string{"server"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.dir, l.env, log, log
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		_ = log.Close()
	})
	return log.Name()
}
