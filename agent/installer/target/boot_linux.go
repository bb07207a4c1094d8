package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/disks"
	"github.com/holdfast-metal/holdfast/agent/installer/efi"
	"github.com/holdfast-metal/holdfast/agent/installer/table"
)

const (
	firmware = "/sys/firmware/efi" // exists with UEFI
	varsDir  = "/run/holdfast-efivars"
	espPoint = "/run/holdfast-esp"
)

// enter creates a boot entry for the disk's loader if the firmware is UEFI. Without an
// entry, the firmware may still boot by the fallback path. So a failure is logged and does
// not end the installation.
func enter(ctx context.Context, disk string, parts []partition, log *slog.Logger) {
	if _, err := os.Stat(firmware); err != nil {
		log.Info("no boot entry: the machine was booted by BIOS")
		return
	}
	name, err := entry(ctx, disk, parts)
	if err != nil {
		log.Warn("cannot create a boot entry, the firmware has to find the disk by itself", "error", err)
		return
	}
	log.Info("boot entry created", "entry", name, "title", efi.Title)
}

func entry(ctx context.Context, disk string, parts []partition) (string, error) {
	d, err := disks.Open(disk)
	if err != nil {
		return "", err
	}
	esp, ok, err := table.FindSystem(d.File)
	if err := errors.Join(err, d.Close()); err != nil {
		return "", err
	}
	if !ok {
		return "", errors.New("the image has no EFI system partition")
	}
	dev, err := device(ctx, parts, esp.Partition)
	if err != nil {
		return "", err
	}
	loader := map[string]string{"amd64": "BOOTX64.EFI", "arm64": "BOOTAA64.EFI"}[runtime.GOARCH]
	if err := mounted(dev, espPoint, "vfat", unix.MS_RDONLY, func() error {
		_, err := os.Stat(filepath.Join(espPoint, "EFI/BOOT", loader))
		return err
	}); err != nil {
		return "", fmt.Errorf("find the boot loader: %w", err)
	}
	name := ""
	err = mounted("efivarfs", varsDir, "efivarfs", 0, func() error {
		name, err = efi.Enter(varsDir, efi.Loader{System: esp, Path: `\EFI\BOOT\` + loader})
		return err
	})
	return name, err
}

// device returns the path of a partition by its number.
func device(ctx context.Context, parts []partition, number int) (string, error) {
	for _, p := range parts {
		n, err := os.ReadFile(filepath.Join("/sys/class/block", p.name, "partition"))
		if err == nil && strings.TrimSpace(string(n)) == strconv.Itoa(number) {
			return "/dev/" + p.name, waitFor(ctx, "/dev/"+p.name)
		}
	}
	return "", fmt.Errorf("partition %d not found", number)
}

// mounted calls do while a file system is mounted.
func mounted(dev, dir, kind string, flags uintptr, do func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(dev, dir, kind, flags|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount %s as %s: %w", dev, kind, err)
	}
	seen, err := watch(dir)
	if err == nil {
		err = errors.Join(do(), seen.flush())
	}
	if gone := unix.Unmount(dir, 0); gone != nil {
		err = errors.Join(err, fmt.Errorf("unmount %s: %w", dev, gone))
	}
	return err
}
