package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func fixtureSecrets() []*holdfastv1.Secret {
	return []*holdfastv1.Secret{
		{Name: "bmc/r7", Type: "bmc", Keys: []string{"password", "username"}, KeyId: "2026-11", Version: 3,
			CreatedAt: ago(90 * 24 * time.Hour), UpdatedAt: ago(time.Hour),
			UpdatedBy: "user:alice", UsedBy: []string{"m-123", "m-124"}, Uses: 12},
		{Name: "cluster/gpu", Type: "join", Keys: []string{"certificate_key", "kubeconfig"}, KeyId: "2026-11", Version: 2,
			Pools: []string{"gpu"}, CreatedAt: ago(24 * time.Hour), UpdatedAt: ago(time.Minute),
			UpdatedBy: "user:alice"},
		{Name: "cluster/prod", Type: "join", Keys: []string{"kubeconfig"}, KeyId: "2026-11", Version: 1,
			CreatedAt: ago(24 * time.Hour), UpdatedAt: ago(24 * time.Hour), UpdatedBy: "user:bob"},
		{Name: "join", Type: "join", Keys: []string{"token"}, KeyId: "3ba3f5f4", Version: 1, Pools: []string{"cpu", "gpu"},
			CreatedAt: ago(time.Minute), UpdatedAt: ago(time.Minute), UpdatedBy: "token:ci"},
	}
}

func (f *fakeCluster) PutSecret(_ context.Context, r *holdfastv1.PutSecretRequest) (*holdfastv1.Secret, error) {
	return &holdfastv1.Secret{Name: r.GetName(), Type: r.GetType(), Keys: []string{"password", "username"},
		KeyId: "2026-11", Version: 1, UpdatedAt: ago(0)}, nil
}

func (f *fakeCluster) GetSecret(_ context.Context, r *holdfastv1.GetSecretRequest) (*holdfastv1.Secret, error) {
	for _, s := range fixtureSecrets() {
		if s.GetName() == r.GetName() {
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "secret %q not found", r.GetName())
}

func (f *fakeCluster) ListSecrets(
	context.Context, *holdfastv1.ListSecretsRequest,
) (*holdfastv1.ListSecretsResponse, error) {
	return &holdfastv1.ListSecretsResponse{Secrets: fixtureSecrets()}, nil
}

func (f *fakeCluster) DeleteSecret(
	context.Context, *holdfastv1.DeleteSecretRequest,
) (*holdfastv1.DeleteSecretResponse, error) {
	return &holdfastv1.DeleteSecretResponse{}, nil
}

func (f *fakeCluster) RotateSecrets(
	context.Context, *holdfastv1.RotateSecretsRequest,
) (*holdfastv1.RotateSecretsResponse, error) {
	return &holdfastv1.RotateSecretsResponse{KeyId: "2026-11", Resealed: 7}, nil
}

func TestSecretOutput(t *testing.T) {
	f := startCluster(t, fixture())
	for _, args := range []string{"secret list", "secret list -o wide", "secret list -o name", "secret get bmc/r7",
		"secret get join -o yaml"} {
		t.Run(args, func(t *testing.T) {
			var c command
			c.wantCode(t, c.run(t, f, strings.Fields(args)...), app.ExitOK)
			golden(t, strings.NewReplacer(" ", "_", "/", "-").Replace(args)+".golden", c.out.String())
		})
	}
	var c command
	c.wantCode(t, c.run(t, f, "secret", "rotate"), app.ExitOK)
	wantIn(t, "stderr", c.err.String(), "encrypted 7 again", "2026-11")
	c = command{}
	c.wantCode(t, c.run(t, f, "secret", "delete", "a", "b", "--force", "--yes"), app.ExitOK)
	wantIn(t, "stderr", c.err.String(), "deleted secret a", "deleted secret b")
	if got := asked[*holdfastv1.DeleteSecretRequest](f); len(got) != 2 || !got[1].GetForce() {
		t.Errorf("asked %v", got)
	}
}

func TestSecretPut(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const pem = "-----BEGIN KEY-----\nabc\n-----END KEY-----\n"
	for _, tc := range []struct {
		name string
		args []string
		in   string
		want map[string]string
	}{
		{"from files", []string{"--type", "bmc", "--from-file", "username=" + file("u", "root\n"), "--from-file",
			"password=" + file("p", "correct=horse\r\n")},
			"", map[string]string{"username": "root", "password": "correct=horse"}},
		{"several lines", []string{"--type", "ssh", "--username", "root", "--from-file", "private_key=" +
			file("k", pem)}, "", map[string]string{"username": "root", "private_key": pem}},
		{"from standard input", []string{"--type", "token", "--from-stdin", "token"}, "correct-horse\n",
			map[string]string{"token": "correct-horse"}},
		{"for pools", []string{"--type", "token", "--from-stdin", "token", "--pool", "a,b", "--pool", "c"}, "x",
			map[string]string{"token": "x"}},
		{"all pools", []string{"--type", "token", "--from-stdin", "token", "--all-pools"}, "x",
			map[string]string{"token": "x"}},
		{"spaces", []string{"--type", "opaque", "--from-stdin", "x"}, " a b ",
			map[string]string{"x": " a b "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := startCluster(t, fixture())
			c := command{in: tc.in}
			c.wantCode(t, c.run(t, f, append([]string{"secret", "put", "bmc/r7"}, tc.args...)...), app.ExitOK)
			want := []*holdfastv1.PutSecretRequest{{Name: "bmc/r7", Type: tc.args[1], Values: tc.want}}
			switch tc.name {
			case "for pools":
				want[0].Pools = []string{"a", "b", "c"}
			case "all pools":
				want[0].AllPools = true
			}
			if diff := cmp.Diff(want, asked[*holdfastv1.PutSecretRequest](f), protocmp.Transform()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			for key, value := range tc.want {
				if key != "username" && value != "" && strings.Contains(c.out.String()+c.err.String(), value) {
					t.Errorf("got value %s in the output:\n%s%s", key, c.out.String(), c.err.String())
				}
			}
		})
	}
}

func TestSecretPutRefuses(t *testing.T) {
	const value = "hunter2-hunter2"
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxValue+1), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startCluster(t, fixture())
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"a value as an argument", []string{"a", "password=" + value, "--type", "bmc"}, app.ExitUsage,
			"never from arguments"},
		{"pools and all pools", []string{"a", "--type", "token", "--from-stdin", "token", "--pool", "a", "--all-pools"},
			app.ExitUsage, "all-pools"},
		{"no type", []string{"a"}, app.ExitUsage, "--type is missing"},
		{"no source of the values", []string{"a", "--type", "bmc", "--username", "root"}, app.ExitUsage,
			"--from-file password=PATH"},
		{"a value with --from-stdin", []string{"a", "--type", "token", "--from-stdin", "token=" + value}, app.ExitUsage,
			"the KEY alone"},
		{"a value with --from-file", []string{"a", "--type", "token", "--from-file", value}, app.ExitUsage,
			"want KEY=PATH"},
		{"twice", []string{"a", "--type", "token", "--from-file", "token=/dev/null", "--from-stdin", "token"},
			app.ExitUsage,
			"given twice"},
		{"no such file", []string{"a", "--type", "token", "--from-file", "token=/none"}, app.ExitUsage, "no such file"},
		{"too large", []string{"a", "--type", "token", "--from-file", "token=" + large}, app.ExitError, "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := command{in: value}
			c.wantCode(t, c.run(t, f, append([]string{"secret", "put"}, tc.args...)...), tc.code)
			wantIn(t, "stderr", c.err.String(), tc.want)
			if strings.Contains(c.err.String()+c.out.String(), value) {
				t.Errorf("got the value in the output: %s", c.err.String())
			}
		})
	}
	if got := asked[*holdfastv1.PutSecretRequest](f); len(got) != 0 {
		t.Errorf("asked %v", got)
	}
}

func TestSecretKeygen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	var c command
	c.wantCode(t, c.run(t, nil, "secret", "keygen", "--out", path, "--id", "2026-11"), app.ExitOK)
	k, err := secrets.Open(path, nil)
	if err != nil || !k.Has("2026-11") {
		t.Errorf("open the new key: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	if c.out.String() != "" {
		t.Errorf("got the key in the output: %s", c.out.String())
	}
	again := command{}
	again.wantCode(t, again.run(t, nil, "secret", "keygen", "--out", path), app.ExitError)
	wantIn(t, "stderr", again.err.String(), "never overwritten")

	c = command{}
	c.wantCode(t, c.run(t, nil, "secret", "keygen"), app.ExitOK)
	if id, key, ok := strings.Cut(strings.TrimSpace(c.out.String()), ":"); !ok || len(id) != 8 || len(key) != 44 {
		t.Errorf("got a line of %d characters", len(c.out.String()))
	}
}

func TestSecretHelpHasExamples(t *testing.T) {
	for _, verb := range []string{"", "put", "list", "get", "delete", "rotate", "keygen"} {
		var c command
		c.wantCode(t, c.run(t, nil, append(strings.Fields("secret "+verb), "--help")...), app.ExitOK)
		wantIn(t, "help of "+verb, c.out.String(), "Examples:")
	}
}

// TestInterruptedPassword checks that the prompt for a password ends with the context, and that the
// terminal echoes again.
func TestInterruptedPassword(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: no pseudo terminals:", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	echoes := func() bool {
		attr, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		return err == nil && attr.Lflag&unix.ECHO != 0
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := ask(ctx, (&app.App{Streams: app.Streams{In: tty, Err: io.Discard}}), "password", true)
		asked <- err
	}()
	eventually(t, "the prompt", func() bool { return !echoes() })
	cancel()
	select {
	case err := <-asked:
		if !errors.Is(err, context.Canceled) || !echoes() {
			t.Errorf("got %v and echo %v, want canceled and echo", err, echoes())
		}
	case <-time.After(3 * time.Second):
		t.Error("the prompt has not ended with its context")
	}
	_, _ = master.WriteString("x\n") // ends the read
}
