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
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestClusterRefOutput(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, args := range []string{"cluster-ref list", "cluster-ref list -o wide", "cluster-ref list -o name",
		"cluster-ref get prod"} {
		t.Run(args, func(t *testing.T) {
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitOK)
			clitest.Golden(t, strings.NewReplacer(" ", "_", "/", "-").Replace(args)+".golden", c.Out.String())
		})
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "cluster-ref", "delete", "prod", "gpu", "--yes"), app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "deleted cluster prod", "deleted cluster gpu")
	if got := clitest.Asked[*holdfastv1.DeleteSecretRequest](f); len(got) != 2 || got[0].GetName() != "cluster/prod" {
		t.Errorf("asked %v", got)
	}
}

func TestClusterRefAdd(t *testing.T) {
	const conf = "apiVersion: v1\nkind: Config\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"conf": conf, "key": "0123\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, tc := range []struct {
		name string
		args []string
		in   string
		want *holdfastv1.PutSecretRequest // nil: refused
	}{
		{"from a file", []string{"--kubeconfig", at("conf")}, "",
			&holdfastv1.PutSecretRequest{Values: map[string]string{"kubeconfig": conf}}},
		{"from standard input", []string{"--kubeconfig", "-"}, conf,
			&holdfastv1.PutSecretRequest{Values: map[string]string{"kubeconfig": conf}}},
		{"for control planes of a pool", []string{"--kubeconfig", at("conf"), "--certificate-key-file", at("key"), "--pool",
			"gpu"}, "",
			&holdfastv1.PutSecretRequest{Values: map[string]string{"kubeconfig": conf, "certificate_key": "0123"},
				Pools: []string{"gpu"}}},
		{"without a kubeconfig", nil, "", nil},
		{"for some and all", []string{"--kubeconfig", at("conf"), "--pool", "gpu", "--all-pools"}, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := clitest.Start(t, clitest.Fixture())
			c := clitest.Command{In: tc.in}
			code := c.Run(t, f, append([]string{"cluster-ref", "add", "prod"}, tc.args...)...)
			if tc.want == nil {
				c.WantCode(t, code, app.ExitUsage)
				return
			}
			c.WantCode(t, code, app.ExitOK)
			tc.want.Name, tc.want.Type = "cluster/prod", "join"
			if diff := cmp.Diff([]*holdfastv1.PutSecretRequest{tc.want}, clitest.Asked[*holdfastv1.PutSecretRequest](f),
				protocmp.Transform()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}
