package image

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// TestRun runs deploy/container/compose.yaml with the image in E2E_IMAGE, without a container
// engine: each service has the files of the image as its root (chroot), the user of the image, and
// an address of loopback. It needs root. `make release-check` calls it.
func TestRun(t *testing.T) {
	file := os.Getenv("E2E_IMAGE")
	if file == "" {
		t.Skip("set E2E_IMAGE to the file of an image for this machine")
	}
	l := newLab(t, file)
	l.run("pki")
	l.share("pki", "var/lib/holdfast", "pki")
	for _, service := range []string{"fleet", "n1", "n2", "n3"} {
		l.start(service)
	}
	l.run("cli", "cluster", "status", "--wait=1m")
	l.run("cli", "machine", "register", "--id", "m-1", "--provider", "fake")
	l.run("cli", "run", "start", "m-1", "--type", "REPAVE", "--yes", "--wait")

	leader := l.leader()
	began := time.Now()
	l.stop(leader)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the leader took %s to stop, more than stop_grace_period", took)
	}
	for end := time.Now().Add(time.Minute); ; {
		next := l.leader()
		if next != "" && next != leader {
			t.Logf("%s leads after %s", next, leader)
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the leader is %q, a minute after %s stopped", next, leader)
		}
	}

	for _, service := range []string{"n1", "n2", "n3"} {
		if service != leader {
			l.stop(service)
		}
	}
	l.resolve(1) // containers that start again may have the addresses of each other
	for _, service := range []string{"n1", "n2", "n3"} {
		l.start(service)
	}
	l.run("cli", "cluster", "status", "--wait=1m")
	l.run("cli", "machine", "get", "m-1")
	l.exec("n1", "/usr/bin/stdbuf", "-o0", "/usr/bin/ipmitool", "-V")
}

// compose is the part of the file that the lab needs.
type compose struct {
	Configs  map[string]struct{ Content string }
	Services map[string]service
}

type service struct {
	Command     []string
	Environment map[string]string
	Configs     []struct{ Source, Target string }
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	if err := yaml.Unmarshal(readFile(t, "../../../deploy/container/compose.yaml"), &c); err != nil {
		t.Fatalf("read compose.yaml: %v", err)
	}
	return c
}

// command returns a process of a service. Its arguments replace those in the file.
func (l *lab) command(ctx context.Context, name string, argv ...string) *exec.Cmd {
	s := l.compose.Services[name]
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Path = argv[0] // below the root
	cmd.Env = append([]string(nil), l.config.Env...)
	for key, value := range s.Environment {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.Dir = l.config.WorkingDir
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     l.root(name),
		Credential: &syscall.Credential{Uid: uid, Gid: uid},
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// argv returns the command line of a service.
func (l *lab) argv(name string, args []string) []string {
	if len(args) == 0 {
		args = l.compose.Services[name].Command
	}
	return append(append([]string(nil), l.config.Entrypoint...), args...)
}

// run runs a service until it ends.
func (l *lab) run(name string, args ...string) { l.t.Helper(); l.exec(name, l.argv(name, args)...) }

func (l *lab) exec(name string, argv ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := l.command(ctx, name, argv...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %s: %v\n%s", name, strings.Join(argv, " "), err, out)
	}
	l.t.Logf("%s: %s\n%s", name, strings.Join(argv, " "), out)
}

// start starts a service that runs until stop, or the end of the test.
func (l *lab) start(name string) {
	l.t.Helper()
	cmd := l.command(l.t.Context(), name, l.argv(name, nil)...)
	cmd.Stderr = &l.log
	if err := cmd.Start(); err != nil {
		l.t.Fatalf("start %s: %v", name, err)
	}
	l.running[name] = cmd
	l.t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// stop stops a service as an engine does.
func (l *lab) stop(name string) {
	l.t.Helper()
	cmd := l.running[name]
	if cmd == nil {
		l.t.Fatalf("the leader %q is no service", name)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatalf("stop %s: %v", name, err)
	}
	if err := cmd.Wait(); err != nil {
		l.t.Errorf("%s ended with %v, want 0\n%s", name, err, l.log.String())
	}
}

// leader returns the leader, or nothing if there is none.
func (l *lab) leader() string {
	argv := l.argv("cli", []string{"cluster", "status", "-o", "jsonpath=leader"})
	out, err := l.command(l.t.Context(), "cli", argv...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
