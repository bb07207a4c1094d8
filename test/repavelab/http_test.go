//go:build linux

package repavelab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab"
)

// TestHTTPBoot checks that a box whose UEFI supports only HTTP boot reaches the installer with the
// answers of the peers. dnsmasq assigns only its address.
func TestHTTPBoot(t *testing.T) {
	if why != "" {
		t.Skip("NOT TESTED: " + why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	began := time.Now()
	network(t, 1) // first, because it sets the loopback interface up
	bench, err := bmclab.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bench.Close() }()
	l := bench.Lab(t)
	addresses(l, t, 1)
	s := openSite(t, bench, l, patient)
	boxes := s.boxes(l, 1, true)
	s.prepare(boxes, installs(0))
	b := boxes[0]
	b.run = s.cli("run", "start", b.id, "--yes", "--type", "REPAVE", "--plan", "lab-repave", "--param", "authorized_keys="+
		s.files["authorized"], "-o", "name")
	b.run = b.run[strings.LastIndex(b.run, "/")+1:]
	for _, stage := range []holdfastv1.Install_Stage{holdfastv1.Install_BOOTED_IPXE,
		holdfastv1.Install_INSTALLER_STARTED} {
		s.until(ctx, "the box to reach "+stage.String(), boxes,
			func(i *holdfastv1.Install) bool { return i.GetStage() >= stage })
		t.Logf("%6.1f s: %s", time.Since(began).Seconds(), stage)
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "dnsmasq.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "vendor class: HTTPClient:Arch:00016") ||
		strings.Contains(string(log), "vendor class: PXEClient:Arch:00007:UNDI:003001") {
		t.Errorf("requests of the firmware: want only HTTP boot, got:\n%s", log)
	}
	if text := s.console(b); !strings.Contains(text, "URI: http://") || !strings.Contains(text, "/netboot/ipxe.efi") {
		t.Errorf("console: got no download of iPXE by HTTP:\n%s", text)
	}
}
