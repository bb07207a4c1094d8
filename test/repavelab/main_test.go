//go:build linux

package repavelab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/holdfast-metal/holdfast/test/bmclab"
	"github.com/holdfast-metal/holdfast/test/kubelab"
)

// inside is the environment variable that is set in the lab's network namespace.
const inside = "REPAVELAB_INSIDE"

// why is the reason why nothing is tested. TestMain sets it once, before any test.
var why string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	switch {
	case os.Getenv("E2E_DHCP") != "" && os.Getenv(inside) == "":
		why = "not requested"
		return enter(installDHCPServers)
	case os.Getenv("E2E_REPAVE") == "":
		why = "boots machines in QEMU: run make e2e-repave"
	case os.Geteuid() != 0:
		fmt.Fprintln(os.Stderr, "NOT TESTED: creates network interfaces and a root file system, which requires root")
		return 1
	case os.Getenv(inside) == "":
		return enter(prepare)
	}
	return m.Run()
}

// enter installs missing programs, builds the image if needed, and runs this program again in an
// isolated network namespace.
func enter(ready func(context.Context) error) int {
	ctx := context.Background()
	if err := ready(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.LockOSThread() // the child would die with the thread
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		return 1
	}
	return 0
}

// cacheDir returns the directory of the machines' image: E2E_REPAVE_CACHE, or
// /var/cache/holdfast/repave.
func cacheDir() string {
	if dir := os.Getenv("E2E_REPAVE_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/holdfast/repave"
}

func diskImage() string { return filepath.Join(cacheDir(), "disk.raw.zst") }

// netbootDir returns the directory of the kernel and initramfs of `make netboot`.
func netbootDir() string { return filepath.Join("..", "..", "bin", "netboot") }

// programs returns the programs that this lab needs in addition to those of bmclab, with their
// Debian packages. image.sh installs its own.
func programs() map[string]string {
	return map[string]string{"/usr/sbin/dnsmasq": "dnsmasq-base", "/usr/share/OVMF/OVMF_CODE.fd": "ovmf",
		"/usr/lib/ipxe/ipxe.efi": "ipxe"}
}

// install installs the packages of missing programs, without starting their services.
func install(ctx context.Context, programs map[string]string) error {
	args := []string{"RUNLEVEL=1", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "install", "-y",
		"--no-install-recommends"}
	n := len(args)
	for file, pkg := range programs {
		if _, err := os.Stat(file); err != nil {
			args = append(args, pkg)
		}
	}
	if len(args) == n {
		return nil
	}
	return do(ctx, "env", args...)
}

// installDHCPServers installs the servers with configurations in docs/netboot.md.
func installDHCPServers(ctx context.Context) error {
	return install(ctx, map[string]string{"/usr/sbin/dnsmasq": "dnsmasq-base", "/usr/sbin/kea-dhcp4": "kea-dhcp4-server"})
}

func prepare(ctx context.Context) error {
	if err := bmclab.Install(ctx); err != nil {
		return err
	}
	if err := install(ctx, programs()); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(netbootDir(), "installer.cpio.gz")); err != nil {
		return fmt.Errorf("find the installer: %w: run make netboot", err)
	}
	if _, err := kubelab.Build(ctx); err != nil { // the namespace has no access to the Internet
		return err
	}
	if _, err := os.Stat(diskImage()); err == nil {
		return nil
	}
	return do(ctx, "./image.sh", cacheDir())
}

// do runs a program, and prints its output if it fails.
func do(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out[max(0, len(out)-4000):])
	}
	return nil
}
