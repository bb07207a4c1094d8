// Command netboot builds the netboot image: a kernel from a Debian package, and an
// initramfs with holdfast-agent as /init and the drivers that it loads.
//
//	netboot -agent bin/holdfast-agent -deb linux-image-….deb -out bin/netboot
//	        [-modules a,b,…] [-ca ca.pem] [-loaders TREE] [-programs TREE]
//
// With boot loaders it also builds a boot medium, and with e2fsprogs and dosfstools the
// installer can unpack root file systems (docs/installer.md).
//
// It unpacks the package with dpkg-deb, reads the dependencies of a module from the module
// itself, and writes the cpio archive itself: it needs no root, mounts or device nodes. The
// same input yields the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// drivers are the modules to include. Modules that are built in or missing in the kernel's
// package are skipped. Debian's cloud kernel has those of virtual machines; the generic one
// (KERNEL=linux-image-amd64) has the others too.
const drivers = "virtio_pci,virtio_mmio,virtio_blk,virtio_scsi,virtio_net,virtio_rng," +
	"nvme,ahci,sd_mod,megaraid_sas,mpt3sas,aacraid,smartpqi,hpsa," +
	"e1000,e1000e,igb,igc,ixgbe,i40e,ice,tg3,bnxt_en,mlx4_en,mlx5_core,r8169,ena,gve,hv_netvsc," +
	"hv_storvsc,vmxnet3,vmw_pvscsi," +
	"ext4,xfs,btrfs,vfat,nls_cp437,nls_iso8859-1,nls_ascii,efivarfs,usb_storage,xhci_pci"

func main() {
	agent := flag.String("agent", "bin/holdfast-agent", "static binary, /init of the image")
	deb := flag.String("deb", "", "kernel package, linux-image-VERSION_….deb")
	out := flag.String("out", "bin/netboot", "directory to write vmlinuz and installer.cpio.gz to")
	modules := flag.String("modules", drivers, "modules to include, with their dependencies")
	ca := flag.String("ca", "", "CA certificate of the peers, if they serve HTTPS with their own CA")
	loaders := flag.String("loaders", "",
		"directory with isolinux, syslinux-common and systemd-boot-efi unpacked: also builds installer.iso")
	programs := flag.String("programs", "",
		"directory with e2fsprogs, dosfstools and their dependencies unpacked: the installer then accepts TAR images")
	flag.Parse()
	if err := run(*agent, *deb, *out, *ca, *loaders, *programs, strings.Split(*modules, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "netboot:", err)
		os.Exit(1)
	}
}

func run(agent, deb, out, ca, tree, programs string, wanted []string) error {
	if deb == "" {
		return fmt.Errorf("no kernel package: set -deb (apt-get download one, as make netboot does)")
	}
	unpacked, err := os.MkdirTemp("", "holdfast-netboot-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unpacked) }()
	if text, err := exec.Command("dpkg-deb", "-x", deb, unpacked).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", deb, err, text)
	}
	kernels, err := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("find the kernel in %s: %d files match boot/vmlinuz-*: is it a package linux-image-VERSION?",
			deb, len(kernels))
	}
	version := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
	picked, absent, err := pick(filepath.Join(unpacked, "lib", "modules", version), wanted)
	if err != nil {
		return err
	}
	files, err := contents(agent, ca, picked)
	if err != nil {
		return err
	}
	if programs != "" {
		more, err := gather(programs)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	packed, err := compress(archive(files))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "installer.cpio.gz"), packed, 0o644); err != nil {
		return err
	}
	kernel, err := os.ReadFile(kernels[0])
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "vmlinuz"), kernel, 0o644); err != nil {
		return err
	}
	if tree != "" {
		var l loaders
		if err := l.find(tree); err != nil {
			return err
		}
		if err := medium(filepath.Join(out, "installer.iso"), l, kernel, packed); err != nil {
			return err
		}
	}
	fmt.Printf("kernel %s: %.1f MB; installer.cpio.gz: %.1f MB, with %d modules\n", version, mb(kernel), mb(packed),
		len(picked))
	fmt.Printf("built in or not in this kernel: %s\n", strings.Join(absent, " "))
	return nil
}

func mb(b []byte) float64 { return float64(len(b)) / 1e6 }

// contents returns the files of the initramfs.
func contents(agent, ca string, modules []string) ([]file, error) {
	files := []file{
		dir("dev"), dir("etc"), dir("etc/holdfast"), dir("modules"), dir("proc"), dir("run"), dir("sys"), dir("tmp"),
		{name: "dev/console", mode: 0o20600, major: 5, minor: 1},
	}
	add := func(name, from string, mode uint32) error {
		b, err := os.ReadFile(from)
		files = append(files, file{name: name, mode: mode, data: b})
		return err
	}
	if err := add("init", agent, 0o100755); err != nil {
		return nil, err
	}
	if ca != "" {
		if err := add("etc/holdfast/ca.pem", ca, 0o100644); err != nil {
			return nil, err
		}
	}
	var order strings.Builder
	for _, m := range modules {
		if err := add("modules/"+filepath.Base(m), m, 0o100644); err != nil {
			return nil, err
		}
		fmt.Fprintln(&order, filepath.Base(m))
	}
	return append(files, file{name: "modules/order", mode: 0o100644, data: []byte(order.String())}), nil
}
