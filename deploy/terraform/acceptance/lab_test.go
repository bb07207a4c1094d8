package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// lab is a peer with fake hardware, and a directory in which terraform uses the built provider.
type lab struct {
	*testing.T
	dir    string
	binary string // holdfast
	addr   string // of the peer
	env    []string
}

// newLab starts the peer. E2E_TERRAFORM_BINARY and E2E_TERRAFORM_PROVIDER name binaries that are
// built already.
func newLab(t *testing.T) *lab {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	l := &lab{T: t, dir: t.TempDir()}
	at := func() string { return ports.Address("127.0.0.1") }
	l.addr = at()
	l.env = append(os.Environ(), "HOME="+l.dir, "HOLDFAST_ADDR="+l.addr, "HOLDFAST_GRPC_ADDR="+l.addr,
		"HOLDFAST_HTTP_ADDR="+at(), "HOLDFAST_RAFT_ADDR="+at(), "HOLDFAST_GOSSIP_ADDR="+at(),
		"TF_CLI_CONFIG_FILE="+l.path("terraformrc"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	l.binary = l.built("E2E_TERRAFORM_BINARY", "../../..", "./cmd/holdfast", l.path("bin/holdfast"))
	plugin := l.built("E2E_TERRAFORM_PROVIDER", "..", "./terraform-provider-holdfast",
		l.path("plugin/terraform-provider-holdfast"))
	l.write("terraformrc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n"+
		"    \"holdfast-metal/holdfast\" = %q\n  }\n  direct {}\n}\n", filepath.Dir(plugin)))
	l.serve()
	return l
}

// built returns a binary: the one that a variable of the environment names, or one built from a
// package of the module in dir.
func (l *lab) built(variable, dir, pkg, out string) string {
	l.Helper()
	if file := os.Getenv(variable); file != "" {
		return file
	}
	text, err := exec.Command("go", "-C", dir, "build", "-buildvcs=false", "-o", out, pkg).CombinedOutput()
	if err != nil {
		l.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// serve starts the peer, which ends with the test.
func (l *lab) serve() {
	l.Helper()
	log, err := os.Create(l.path("server.log"))
	if err != nil {
		l.Fatal(err)
	}
	l.holdfast("secret", "keygen", "--out", l.path("secrets.keys"))
	ctx, stop := context.WithCancel(context.Background())
	peer := exec.CommandContext(ctx, l.binary, "server", "--dev", "--secrets-key-file", l.path("secrets.keys"))
	peer.Cancel = func() error { return peer.Process.Signal(os.Interrupt) }
	peer.WaitDelay = 10 * time.Second
	peer.Env, peer.Stdout, peer.Stderr = l.env, log, log
	if err := peer.Start(); err != nil {
		stop()
		l.Fatal(err)
	}
	l.Cleanup(func() {
		stop()
		if err := peer.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			l.Logf("end the peer: %v", err)
		}
		if l.Failed() {
			text, _ := os.ReadFile(l.path("server.log"))
			l.Logf("log of the peer:\n%s", text)
		}
	})
	l.holdfast("cluster", "status", "--wait")
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

func (l *lab) write(name, text string) {
	l.Helper()
	if err := os.WriteFile(l.path(name), []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
}

// config replaces the configuration.
func (l *lab) config(text string) {
	l.Helper()
	l.write("main.tf", "terraform {\n  required_providers {\n    holdfast = { source = \"holdfast-metal/holdfast\" }\n"+
		"  }\n}\nprovider \"holdfast\" {}\n"+text)
}

// holdfast runs a verb of the command line and returns its output.
func (l *lab) holdfast(args ...string) string {
	l.Helper()
	out, err := l.run(l.binary, args...)
	if err != nil {
		l.Fatalf("holdfast %v: %v\n%s", args, err, out)
	}
	return out
}

// terraform runs terraform, and returns its output and exit code.
func (l *lab) terraform(args ...string) (out string, code int) {
	l.Helper()
	text, err := l.run("terraform", append(args, "-no-color")...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return text, exit.ExitCode()
	}
	if err != nil {
		l.Fatal(err)
	}
	return text, 0
}

// run runs a command in the directory and with the environment of the lab.
func (l *lab) run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(l.Context(), name, args...)
	cmd.Dir, cmd.Env = l.dir, l.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// apply applies the configuration.
func (l *lab) apply(args ...string) string {
	l.Helper()
	out, code := l.terraform(append([]string{"apply", "-auto-approve", "-input=false"}, args...)...)
	if code != 0 {
		l.Fatalf("terraform apply: exit code %d\n%s", code, out)
	}
	return out
}

// unchanged checks that a plan is empty.
func (l *lab) unchanged(args ...string) {
	l.Helper()
	if out, code := l.terraform(append([]string{"plan", "-detailed-exitcode", "-input=false"}, args...)...); code != 0 {
		l.Errorf("got exit code %d, want an empty plan:\n%s", code, out)
	}
}

// differs checks that a plan is not empty and contains texts.
func (l *lab) differs(want ...string) {
	l.Helper()
	out, code := l.terraform("plan", "-detailed-exitcode", "-input=false")
	if code != 2 {
		l.Errorf("got exit code %d, want 2: changes", code)
	}
	l.contains(out, want...)
}

// refused checks that a command fails with texts.
func (l *lab) refused(args []string, want ...string) {
	l.Helper()
	out, code := l.terraform(args...)
	if code != 1 {
		l.Errorf("terraform %v: got exit code %d, want 1", args, code)
	}
	l.contains(out, want...)
}

// contains checks that an output has texts. Terraform wraps lines and draws a frame.
func (l *lab) contains(out string, want ...string) {
	l.Helper()
	words := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "│", "")), " ") }
	for _, w := range want {
		if !strings.Contains(words(out), words(w)) {
			l.Errorf("got no %q in:\n%s", w, out)
		}
	}
}
