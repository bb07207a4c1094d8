package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestSecretOutput(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, args := range []string{"secret list", "secret list -o wide", "secret list -o name", "secret get bmc/r7",
		"secret get join -o yaml"} {
		t.Run(args, func(t *testing.T) {
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitOK)
			clitest.Golden(t, strings.NewReplacer(" ", "_", "/", "-").Replace(args)+".golden", c.Out.String())
		})
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "secret", "rotate"), app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "encrypted 7 again", "2026-11")
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "secret", "delete", "a", "b", "--force", "--yes"), app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "deleted secret a", "deleted secret b")
	if got := clitest.Asked[*holdfastv1.DeleteSecretRequest](f); len(got) != 2 || !got[1].GetForce() {
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
			f := clitest.Start(t, clitest.Fixture())
			c := clitest.Command{In: tc.in}
			c.WantCode(t, c.Run(t, f, append([]string{"secret", "put", "bmc/r7"}, tc.args...)...), app.ExitOK)
			want := []*holdfastv1.PutSecretRequest{{Name: "bmc/r7", Type: tc.args[1], Values: tc.want}}
			switch tc.name {
			case "for pools":
				want[0].Pools = []string{"a", "b", "c"}
			case "all pools":
				want[0].AllPools = true
			}
			if diff := cmp.Diff(want, clitest.Asked[*holdfastv1.PutSecretRequest](f), protocmp.Transform()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			for key, value := range tc.want {
				if key != "username" && value != "" && strings.Contains(c.Out.String()+c.Err.String(), value) {
					t.Errorf("got value %s in the output:\n%s%s", key, c.Out.String(), c.Err.String())
				}
			}
		})
	}
}

func TestSecretPutRefuses(t *testing.T) {
	const value = "hunter2-hunter2"
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 64<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	f := clitest.Start(t, clitest.Fixture())
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
			c := clitest.Command{In: value}
			c.WantCode(t, c.Run(t, f, append([]string{"secret", "put"}, tc.args...)...), tc.code)
			clitest.WantIn(t, "stderr", c.Err.String(), tc.want)
			if strings.Contains(c.Err.String()+c.Out.String(), value) {
				t.Errorf("got the value in the output: %s", c.Err.String())
			}
		})
	}
	if got := clitest.Asked[*holdfastv1.PutSecretRequest](f); len(got) != 0 {
		t.Errorf("asked %v", got)
	}
}

func TestSecretKeygen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "secret", "keygen", "--out", path, "--id", "2026-11"), app.ExitOK)
	k, err := secrets.Open(path, nil)
	if err != nil || !k.Has("2026-11") {
		t.Errorf("open the new key: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	if c.Out.String() != "" {
		t.Errorf("got the key in the output: %s", c.Out.String())
	}
	again := clitest.Command{}
	again.WantCode(t, again.Run(t, nil, "secret", "keygen", "--out", path), app.ExitError)
	clitest.WantIn(t, "stderr", again.Err.String(), "never overwritten")

	c = clitest.Command{}
	c.WantCode(t, c.Run(t, nil, "secret", "keygen"), app.ExitOK)
	if id, key, ok := strings.Cut(strings.TrimSpace(c.Out.String()), ":"); !ok || len(id) != 8 || len(key) != 44 {
		t.Errorf("got a line of %d characters", len(c.Out.String()))
	}
}

func TestSecretHelpHasExamples(t *testing.T) {
	for _, verb := range []string{"", "put", "list", "get", "delete", "rotate", "keygen"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, append(strings.Fields("secret "+verb), "--help")...), app.ExitOK)
		clitest.WantIn(t, "help of "+verb, c.Out.String(), "Examples:")
	}
}
