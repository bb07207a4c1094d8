package bmclab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// programs returns the programs that the lab needs, with their Debian packages.
func programs() map[string]string {
	return map[string]string{
		"qemu-system-x86_64": "qemu-system-x86", "ipmi_sim": "openipmi", "ipmitool": "ipmitool", "gcc": "gcc",
	}
}

// missing returns the packages of missing programs.
func missing(ctx context.Context) (packages []string) {
	for program, pkg := range programs() {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	// The second BMC over IPMI, in the tests of providers/bmc, is a library. It stores the
	// boot flags that ipmi_sim drops.
	if exec.CommandContext(ctx, "/usr/bin/python3", "-c", "import pyghmi.ipmi.bmc").Run() != nil {
		packages = append(packages, "python3-pyghmi")
	}
	slices.Sort(packages)
	return packages
}

// Install installs missing packages with apt-get. Without root or apt-get it returns an
// error that names them.
func Install(ctx context.Context) error {
	packages := missing(ctx)
	if len(packages) == 0 {
		return nil
	}
	names := strings.Join(packages, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing: %s: install them (apt-get install %s), or run this as root", names, names)
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("missing: %s: apt-get not found", names)
	}
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, apt, append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
		return nil
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if run(install...) == nil {
		return nil
	}
	if err := run("update"); err != nil { // the lists may be old or missing
		return fmt.Errorf("missing: %s: %w", names, err)
	}
	if err := run(install...); err != nil {
		return fmt.Errorf("missing: %s: %w", names, err)
	}
	return nil
}
