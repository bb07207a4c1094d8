package chassis

import (
	"fmt"
	"strings"
)

// Box is a machine that an operating system is installed on: a PC with a disk of its own, and a
// card on a tap.
type Box struct {
	Memory int    // MiB
	Disk   string // file, raw; its serial number is the machine's name
	Tap    string // interface that is there already
	MAC    string
	// UEFI has the two halves of the firmware, OVMF: code, and variables, which it writes to.
	// Empty: SeaBIOS, whose card has iPXE in its ROM. With UEFI the firmware's own PXE asks first.
	UEFI [2]string
	// HTTP leaves HTTP boot (HTTPClient) as UEFI's only way to boot from the network.
	HTTP bool
}

// boxArguments returns QEMU's command line for a box.
func (m *Machine) boxArguments(order map[string]int, cd string) []string {
	b := m.cfg.Box
	args := []string{
		"-name", m.cfg.Name, "-uuid", "00000000-0000-4000-8000-" + strings.ReplaceAll(b.MAC, ":", ""), "-machine", "pc", "-accel", "tcg,tb-size=128", "-cpu", "max", "-m", fmt.Sprint(b.Memory), "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none", "-object", "rng-random,id=rng0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng0",
		"-chardev", "socket,id=monitor,path=" + m.path("monitor.sock"), "-mon", "chardev=monitor,mode=control",
		"-chardev", "socket,id=line,path=" + m.path("serial.sock"), "-serial", "chardev:line",
		"-boot", "reboot-timeout=5000", // a server that finds nothing to boot looks again
		"-drive", "if=none,id=d0,format=raw,cache=unsafe,discard=unmap,file=" + b.Disk, "-device", fmt.Sprintf("virtio-blk-pci,drive=d0,id=disk0,serial=%s,bootindex=%d", m.cfg.Name, order["disk"]),
		"-netdev", "tap,id=n0,script=no,downscript=no,ifname=" + b.Tap,
		"-drive", cd, "-device", fmt.Sprint("ide-cd,drive=cdd,id=cd0,bootindex=", order["cd"]),
	}
	card := fmt.Sprintf("virtio-net-pci,netdev=n0,id=net0,mac=%s,bootindex=%d", b.MAC, order["net"])
	if b.UEFI[0] != "" {
		card += ",romfile="
		args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+b.UEFI[0], "-drive", "if=pflash,format=raw,unit=1,file="+b.UEFI[1])
	}
	if b.HTTP { // OvmfPkg/README, network support
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=no", "-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=no")
	}
	return append(args, "-device", card)
}

// bootsNormally takes an override back that was for one boot: the firmware has read it, and reads
// again when the guest reboots.
func (q *running) bootsNormally(target string) error {
	place, is := bootOrder()[target]
	if !is {
		return nil
	}
	device := map[string]string{"disk": "disk0", "net": "net0", "cd": "cd0"}[target]
	return q.qmp.do("qom-set", map[string]any{"path": "/machine/peripheral/" + device, "property": "bootindex", "value": place})
}
