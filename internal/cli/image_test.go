package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestImageAdd(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	disk := filepath.Join(t.TempDir(), "debian.raw")
	if err := os.WriteFile(disk, []byte("QFI\xfb\x00\x00\x00\x02"+strings.Repeat("\x00", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "debian.raw.xz")
	if err := os.WriteFile(packed, []byte("\xfd7zXZ\x00"+strings.Repeat("x", 600)), 0o600); err != nil {
		t.Fatal(err)
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "image", "add", "debian", "--disk", disk), app.ExitOK)
	clitest.WantIn(t, "stdout", c.Out.String(), "debian", "qcow2", "disk")
	clitest.WantIn(t, "stderr", c.Err.String(), "n1, n2 have it")
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "image", "add", "live", "--kernel", "https://e.example/k", "--initrd",
		"https://e.example/i", "--sha256", "kernel="+strings.Repeat("B", 64),
		"--sha256", "initrd="+strings.Repeat("c", 64), "--cmdline", "quiet"), app.ExitOK)
	got := clitest.Asked[*holdfastv1.AddImageRequest](f)
	if len(got) != 2 || got[1].GetImage().GetKernel().GetSha256() != strings.Repeat("b", 64) ||
		got[1].GetImage().GetCmdline() != "quiet" || got[0].GetImage().GetDisk().GetUrl() != "" {
		t.Errorf("asked %v", got)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "image", "get", "debian"), app.ExitOK)
	clitest.WantIn(t, "stdout", c.Out.String(), "n1", "all", "1.0 MiB of 3.0 MiB", "nothing: it is down")
	for _, args := range [][]string{
		{"--disk", "https://e.example/d"},
		{"--disk", disk, "--sha256", strings.Repeat("0", 64)},
		{"--disk", disk, "--kernel", disk, "--initrd", disk, "--sha256", strings.Repeat("0", 64)},
		{"--disk", disk, "--format", "iso"},
		{"--disk", disk, "--format", "raw"}, // it is qcow2
		{"--disk", packed},
		{"--kernel", disk, "--initrd", disk, "--format", "raw"},
	} {
		c = clitest.Command{}
		c.WantCode(t, c.Run(t, f, append([]string{"image", "add", "x"}, args...)...), app.ExitUsage)
		if strings.Contains(c.Err.String(), "uploaded") {
			t.Errorf("%v: got an upload before the error: %s", args, c.Err.String())
		}
	}
}
