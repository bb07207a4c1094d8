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

// inside says in the environment that this process is in the network namespace of the lab.
const inside = "REPAVELAB_INSIDE"

// why says why nothing is tested. TestMain sets it, once, before any test.
var why string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	switch {
	case os.Getenv("E2E_DHCP") != "" && os.Getenv(inside) == "":
		why = "it was not asked for"
		return enter(dhcpServers)
	case os.Getenv("E2E_REPAVE") == "":
		why = "it boots machines in QEMU: run make e2e-repave"
	case os.Geteuid() != 0:
		fmt.Fprintln(os.Stderr, "NOT TESTED: it makes network interfaces and a root file system, and that takes root")
		return 1
	case os.Getenv(inside) == "":
		return enter(prepare)
	}
	return m.Run()
}

// enter installs what is missing, makes the image if need be, and runs this program again in a
// network namespace that nothing leads out of.
func enter(ready func(context.Context) error) int {
	ctx := context.Background()
	if err := ready(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.LockOSThread() // the death of the thread would be that of the child
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

// cacheDir is where the image of the machines is kept: E2E_REPAVE_CACHE, else
// /var/cache/holdfast/repave.
func cacheDir() string {
	if dir := os.Getenv("E2E_REPAVE_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/holdfast/repave"
}

func diskImage() string { return filepath.Join(cacheDir(), "disk.raw.zst") }

// netbootDir has the kernel and the initramfs that make netboot builds.
func netbootDir() string { return filepath.Join("..", "..", "bin", "netboot") }

// programs are what this lab needs beyond that of the BMCs, with the Debian package of each. What
// its image takes to make, image.sh installs.
func programs() map[string]string {
	return map[string]string{"/usr/sbin/dnsmasq": "dnsmasq-base", "/usr/share/OVMF/OVMF_CODE.fd": "ovmf",
		"/usr/lib/ipxe/ipxe.efi": "ipxe"}
}

// install installs the packages of programs that are not there. Their services are not started.
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

// dhcpServers installs those that docs/netboot.md has configurations for.
func dhcpServers(ctx context.Context) error {
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
	if _, err := kubelab.Build(ctx); err != nil { // nothing leads out of the namespace
		return err
	}
	if _, err := os.Stat(diskImage()); err == nil {
		return nil
	}
	return do(ctx, "./image.sh", cacheDir())
}

// do runs a program, and shows what it writes when it fails.
func do(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out[max(0, len(out)-4000):])
	}
	return nil
}
