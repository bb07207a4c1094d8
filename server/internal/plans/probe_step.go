package plans

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/installs"
)

// step probes one step with the results of the reads.
func (p *prober) step(ctx context.Context, s *holdfastv1.Step) {
	if c, _ := providers.Missing(p.provider, &holdfastv1.Plan{Steps: []*holdfastv1.Step{s}}); c != "" {
		p.add(s, "provider", holdfastv1.Probe_FAILS, "provider %q lacks %s", p.cfg.Providers.NameOf(p.m), c)
		return
	}
	checks := stepkind.Of(s).GetChecks()
	if s.GetReboot().GetMode() == "inband" {
		checks = []holdfastv1.StepKind_Check{holdfastv1.StepKind_HOST}
	}
	for _, c := range checks {
		p.check(ctx, s, c)
	}
}

// check adds the result of one check of a step.
func (p *prober) check(ctx context.Context, s *holdfastv1.Step, c holdfastv1.StepKind_Check) {
	switch c {
	case holdfastv1.StepKind_NOTHING:
		p.add(s, "host", holdfastv1.Probe_OK, "it only reads, and accepts any result")
	case holdfastv1.StepKind_POWER:
		p.report(s, "bmc", p.power)
	case holdfastv1.StepKind_BOOT_DEVICE:
		p.report(s, "bmc", p.boot)
	case holdfastv1.StepKind_VIRTUAL_DRIVE:
		p.report(s, "bmc", p.media)
	case holdfastv1.StepKind_HOST:
		p.reportHost(s)
	case holdfastv1.StepKind_CLUSTER:
		p.report(s, "cluster", p.clusters[p.clusterOf(s)])
	case holdfastv1.StepKind_IMAGE:
		p.repave(ctx, s, s.GetRepave())
		p.installs = true
	}
}

// report adds the result of a read.
func (p *prober) report(s *holdfastv1.Step, what string, r reading) {
	switch {
	case r.err != nil && providers.ClassOf(r.err) == providers.Auth:
		p.add(s, what, holdfastv1.Probe_FAILS, "it answers, but refuses the account: %v", r.err)
	case r.err != nil:
		p.add(s, what, holdfastv1.Probe_FAILS, "%v", r.err)
	case r.unknown:
		p.add(s, what, holdfastv1.Probe_UNKNOWN, "%s", r.text)
	case r.text == "":
		p.add(s, what, holdfastv1.Probe_UNKNOWN, "the provider cannot probe this")
	default:
		p.add(s, what, holdfastv1.Probe_OK, "%s", r.text)
	}
}

// reportHost adds the result for the host as it will be when the step starts.
func (p *prober) reportHost(s *holdfastv1.Step) {
	if p.installs {
		p.add(s, "host", holdfastv1.Probe_UNKNOWN, "an earlier step installs it: its current state does not matter")
		return
	}
	p.report(s, "host", p.host)
}

// repave probes the needs of an install: the MAC address, the image and its files, the
// installer, and the disk.
func (p *prober) repave(ctx context.Context, s *holdfastv1.Step, k *holdfastv1.RepaveImage) {
	name := fsm.ImageOf(k, p.run, p.m)
	b, ok := p.provider.(interface{ BootsInstaller() bool })
	own := ok && b.BootsInstaller()
	if !own {
		p.add(s, "image", holdfastv1.Probe_UNKNOWN,
			"provider %q installs %q itself: it checks the image only then", p.cfg.Providers.NameOf(p.m), name)
		return
	}
	if len(p.m.GetSpec().GetMacAddresses()) == 0 {
		p.add(s, "mac", holdfastv1.Probe_FAILS,
			"the machine has no MAC address and cannot be identified at its boot: holdfast machine update %s --mac …",
			p.m.GetMachineId())
	}
	arch := fsm.MachineArch("", p.m)
	switch img, there := p.v.Image(name); {
	case !there:
		p.add(s, "image", holdfastv1.Probe_FAILS, "there is no image %q: holdfast image add %s --disk FILE", name, name)
	case img.GetDisk() == nil:
		p.add(s, "image", holdfastv1.Probe_FAILS, "image %q has no disk: nothing would be written", name)
	case img.GetArch() != arch && fsm.ArchOf(p.m.GetNode().GetArch()) != "":
		p.add(s, "image", holdfastv1.Probe_FAILS,
			"image %q is for %s, and the machine is %s", name, img.GetArch(), arch)
	default:
		p.bytes(ctx, s, "image", img)
	}
	if img, missing := installs.Bootable(p.v, installs.InstallerImage, arch); missing != "" {
		p.add(s, "installer", holdfastv1.Probe_FAILS, "%s", missing)
	} else {
		p.bytes(ctx, s, "installer", img)
	}
	p.disk(s, k.GetDisk())
}

// bytes checks whether a peer has the files of an image.
func (p *prober) bytes(ctx context.Context, s *holdfastv1.Step, what string, img *holdfastv1.Image) {
	if p.cfg.Files == nil {
		p.add(s, what, holdfastv1.Probe_UNKNOWN,
			"image %q exists; this peer stores no files and cannot check them", img.GetName())
		return
	}
	var have []string
	for part, f := range fsm.ImageFiles(img) {
		copies, present, cause := p.cfg.Files.Copies(ctx, f.GetSha256()), 0, ""
		for _, c := range copies {
			if c.GetPresent() {
				present++
			} else if c.GetError() != "" {
				cause = ": " + c.GetPeerId() + ": " + c.GetError()
			}
		}
		if present == 0 {
			p.add(s, what, holdfastv1.Probe_FAILS, "no peer has the %s of image %q yet%s", part, img.GetName(), cause)
			return
		}
		have = append(have, fmt.Sprintf("%s on %d of %d peers", part, present, len(copies)))
	}
	p.add(s, what, holdfastv1.Probe_OK, "image %q: %s", img.GetName(), strings.Join(have, ", "))
}

// disk checks the disk rule against the recorded disks of the machine.
func (p *prober) disk(s *holdfastv1.Step, rule string) {
	if p.cfg.ChooseDisk == nil {
		return
	}
	disk, sure, err := p.cfg.ChooseDisk(rule, p.v.Hardware(p.m.GetMachineId()))
	switch {
	case err != nil && sure:
		p.add(s, "disk", holdfastv1.Probe_FAILS, "%v", err)
	case err != nil:
		p.add(s, "disk", holdfastv1.Probe_UNKNOWN, "%v", err)
	default:
		p.add(s, "disk", holdfastv1.Probe_OK, "according to the inventory, the image goes to %s", disk)
	}
}
