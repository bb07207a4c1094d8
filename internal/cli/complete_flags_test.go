package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// Files are offered for flags that take a path, and for no others.
func TestCompletionOfFiles(t *testing.T) {
	var files []string
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, has := cmd.GetFlagCompletionFunc(f.Name); !has && f.Value.Type() != "bool" {
				files = append(files, strings.TrimPrefix(cmd.CommandPath(), "holdfast ")+" --"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	root := cli.Root(app.Streams{})
	root.PersistentPreRun(&cobra.Command{Use: cobra.ShellCompRequestCmd}, nil)
	visit(root)
	clitest.Golden(t, "completion_files.golden", strings.Join(files, "\n")+"\n")
}

func TestCompletionOfFlags(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for args, want := range map[string]string{
		"machine list -l ":              "env= provider= role=",
		"machine list -L ":              "env provider role",
		"run start m-1 --type ":         "REPAVE REBOOT RMA UPGRADE NET_RECONFIG",
		"machine list --limit ":         "",
		"run cancel --filter phase = P": "phase = PENDING phase = RUNNING phase = SUCCEEDED phase = FAILED phase = CANCELED",
		"run start m-1 --plan plan-repave-ubuntu-2204-v1 --param ": "authorized_keys= boot_mode=keep " +
			"boot_mode=uefi boot_mode=bios persistent=false persistent=true",
	} {
		var c clitest.Command
		words := strings.Split(args, " ")
		if i := strings.Index(args, "--filter "); i > 0 {
			words = append(strings.Fields(args[:i]), "--filter", args[i+len("--filter "):])
		}
		c.WantCode(t, c.Run(t, f, append([]string{"__complete"}, words...)...), app.ExitOK)
		var got []string
		for line := range strings.Lines(c.Out.String()) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, ":") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}
