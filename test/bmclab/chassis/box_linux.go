package chassis

import (
	"fmt"
	"strings"
)

// Box is a machine that can run an operating system: a PC with its own disk and a network
// card on a tap interface.
type Box struct {
	Memory int    // MiB
	Disk   string // file, raw; its serial number is the machine's name
	Tap    string // existing interface
	MAC    string
	// UEFI holds the two files of the OVMF firmware: code, and writable variables. If
	// empty, the machine has SeaBIOS with iPXE in the ROM of its network card. With UEFI,
	// the firmware's own PXE comes first.
	UEFI [2]string
	// HTTP leaves HTTP boot (HTTPClient) as UEFI's only network boot method.
	HTTP bool
}

// boxArguments returns QEMU's command line for a box.
func (m *Machine) boxArguments(order map[string]int, cd string) []string {
	b := m.cfg.Box
	args := []string{
		"-name", m.cfg.Name, "-uuid", "00000000-0000-4000-8000-" + strings.ReplaceAll(b.MAC, ":", ""),
		"-machine", "pc", "-accel", "tcg,tb-size=128", "-cpu", "max", "-m", fmt.Sprint(b.Memory), "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none",
		"-object", "rng-random,id=rng0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng0",
		"-chardev", "socket,id=monitor,path=" + m.path("monitor.sock"), "-mon", "chardev=monitor,mode=control",
		"-chardev", "socket,id=line,path=" + m.path("serial.sock"), "-serial", "chardev:line",
		"-boot", "reboot-timeout=5000", // retry if there is nothing to boot
		"-drive", "if=none,id=d0,format=raw,cache=unsafe,discard=unmap,file=" + b.Disk,
		"-device", fmt.Sprintf("virtio-blk-pci,drive=d0,id=disk0,serial=%s,bootindex=%d", m.cfg.Name, order["disk"]),
		"-netdev", "tap,id=n0,script=no,downscript=no,ifname=" + b.Tap,
		"-drive", cd, "-device", fmt.Sprint("ide-cd,drive=cdd,id=cd0,bootindex=", order["cd"]),
	}
	card := fmt.Sprintf("virtio-net-pci,netdev=n0,id=net0,mac=%s,bootindex=%d", b.MAC, order["net"])
	if b.UEFI[0] != "" {
		card += ",romfile="
		args = append(args,
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+b.UEFI[0],
			"-drive", "if=pflash,format=raw,unit=1,file="+b.UEFI[1])
	}
	if b.HTTP { // see network support in OvmfPkg/README
		args = append(args,
			"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=no",
			"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=no")
	}
	return append(args, "-device", card)
}

// bootsNormally removes a one-time override after the firmware has read it, because the
// firmware reads it again when the guest reboots.
func (q *running) bootsNormally(target string) error {
	place, is := bootOrder()[target]
	if !is {
		return nil
	}
	device := map[string]string{"disk": "disk0", "net": "net0", "cd": "cd0"}[target]
	return q.qmp.do("qom-set", map[string]any{"path": "/machine/peripheral/" + device, "property": "bootindex",
		"value": place})
}
