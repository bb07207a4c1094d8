package rollout

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// netboots configures peers to boot machines from the network, and then not to.
func (l *lab) netboots(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"vmlinuz", "installer.cpio.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with := []string{"-e", "holdfast_binary=" + l.old, "-e", "holdfast_netboot_port=7404", "-e",
		"holdfast_netboot_interface=host0", "-e", "holdfast_netboot_installer=" + dir}
	l.mustPlay(t, "site.yml", with...)
	if n := l.mustPlay(t, "site.yml", with...); n != 0 {
		t.Errorf("second run with netboot: got %d changes, want 0", n)
	}
	l.hardened(t)
	for i, h := range l.hosts {
		if got := l.bootScript(t, i); !strings.HasPrefix(got, "#!ipxe") || !strings.Contains(got, "exit") {
			t.Errorf("boot script of %s for an unknown machine: got %q, want one that boots its disk", h, got)
		}
		if got := l.ssh(t, i,
			"ss -Hlun | awk '{ n = split($4, a, \":\"); print a[n] }' | grep -cE '^(67|69|4011)$'"); got != "3" {
			t.Errorf("listening ports of %s: got %s of 67, 69 and 4011, want all", h, got)
		}
	}
	im, err := l.client(t).Images().GetImage(t.Context(), &holdfastv1.GetImageRequest{Name: "installer"})
	if err != nil {
		t.Fatal(err)
	}
	if k, i := im.GetKernel().GetSizeBytes(), im.GetInitrd().GetSizeBytes(); k != int64(len("vmlinuz")) ||
		i != int64(len("installer.cpio.gz")) {
		t.Errorf("installer: got %d and %d bytes, want those of the files", k, i)
	}

	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.old)
	if got := l.ssh(t, 0, "ss -Hltun | grep -cE ':(67|69|4011|7404) ' || true"); got != "0" {
		t.Errorf("got %s listening ports, want 0", got)
	}
}

// bootScript requests the boot script of an unknown machine from a host.
func (l *lab) bootScript(t *testing.T, host int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.address(host)+
		":7404/api/v1/boot?mac=52:54:00:00:00:01", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
