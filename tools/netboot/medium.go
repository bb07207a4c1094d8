package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	storage "github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// blank is the place on the medium into which a peer writes the installer's parameters,
// between two words of the kernel's command line (internal/images, Blank). Each boot loader
// reads it from its own file.
const blankSize = 1024

func blank() string {
	const mark = "@HOLDFAST-BOOT-PARAMETERS@"
	return mark + strings.Repeat("@", blankSize-len(mark))
}

// loaders are the files of boot loaders: Debian's isolinux, syslinux-common and
// systemd-boot-efi.
type loaders struct {
	isolinux string // isolinux.bin
	ldlinux  string // ldlinux.c32
	efi      string // systemd-bootx64.efi
}

// find finds the files in a directory with the unpacked packages.
func (l *loaders) find(tree string) error {
	for at, to := range map[string]*string{"usr/lib/ISOLINUX/isolinux.bin": &l.isolinux,
		"usr/lib/syslinux/modules/bios/ldlinux.c32":    &l.ldlinux,
		"usr/lib/systemd/boot/efi/systemd-bootx64.efi": &l.efi} {
		*to = filepath.Join(tree, at)
		if _, err := os.Stat(*to); err != nil {
			return fmt.Errorf("find the boot loaders: %w: unpack isolinux, syslinux-common and systemd-boot-efi "+
				"there", err)
		}
	}
	return nil
}

// medium writes an ISO 9660 image. BIOS boots it with isolinux, and UEFI with systemd-boot
// from a FAT file system in it (El Torito). Both have their own kernel and initramfs,
// because neither loader reads the other's file system.
func medium(to string, l loaders, kernel, initrd []byte) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-medium-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	words := "ip=dhcp console=tty0 console=ttyS0"
	esp := filepath.Join(dir, "esp")
	efi, err := os.ReadFile(l.efi)
	if err != nil {
		return err
	}
	if err := fat(esp, []entry{
		{"/EFI/BOOT/BOOTX64.EFI", efi},
		{"/loader/loader.conf", []byte("timeout 0\neditor no\n")},
		{"/loader/entries/holdfast.conf",
			[]byte("title Holdfast\nlinux /vmlinuz\ninitrd /initrd.gz\noptions " + words + " " + blank() + "\n")},
		{"/vmlinuz", kernel}, {"/initrd.gz", initrd},
	}); err != nil {
		return fmt.Errorf("create the file system for UEFI: %w", err)
	}
	if err := iso(to, filepath.Join(dir, "tree"), l, esp, []entry{
		{"isolinux.cfg",
			[]byte("SERIAL 0 115200\nDEFAULT holdfast\nPROMPT 0\nLABEL holdfast\n  KERNEL /vmlinuz\n" +
				"  INITRD /initrd.gz\n  APPEND " + words + " " + blank() + "\n")},
		{"vmlinuz", kernel}, {"initrd.gz", initrd},
	}); err != nil {
		return fmt.Errorf("create the ISO 9660 file system: %w", err)
	}
	// A file may be split in the image: then no peer would find the place.
	all, err := os.ReadFile(to)
	if n := bytes.Count(all, []byte(blank())); err == nil && n != 2 {
		return fmt.Errorf("create the boot medium %s: the place for its parameters occurs %d times in one "+
			"piece, want 2",
			to, n)
	}
	return err
}

// entry is a file of a file system.
type entry struct {
	name string
	data []byte
}

// fat creates a FAT32 file system, with enough clusters for firmware to recognize it as
// one.
func fat(to string, files []entry) (err error) {
	size := int64(4 << 20)
	for _, f := range files {
		size += int64(len(f.data)) + 4096
	}
	size = max(size+size/64, 40<<20) &^ 0xffff
	b, err := storage.CreateFromPath(to, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	fs, err := fat32.Create(b, size, 0, 512, "HOLDFAST", true)
	if err != nil {
		return err
	}
	for _, f := range files {
		if d := filepath.Dir(f.name); d != "/" {
			if err := fs.Mkdir(d); err != nil {
				return err
			}
		}
		w, err := fs.OpenFile(f.name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			return err
		}
		_, err = w.Write(f.data)
		if err := errors.Join(err, w.Close()); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// iso creates the ISO 9660 image of the files, of the loader for BIOS, and of the file
// system for UEFI.
func iso(to, tree string, l loaders, esp string, files []entry) (err error) {
	for name, from := range map[string]string{"isolinux.bin": l.isolinux, "ldlinux.c32": l.ldlinux, "esp.img": esp} {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		files = append(files, entry{name, data})
	}
	size := int64(4 << 20)
	for _, f := range files {
		size += int64(len(f.data)) + 4096
		if err := os.MkdirAll(tree, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	b, err := storage.CreateFromPath(to, size&^2047)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	fs, err := iso9660.Create(b, 0, 0, 2048, tree)
	if err != nil {
		return err
	}
	bios := &iso9660.ElToritoEntry{
		Platform:  iso9660.BIOS,
		Emulation: iso9660.NoEmulation,
		BootFile:  "/isolinux.bin",
		BootTable: true,
	}
	bios.SetLoadSize(4)
	uefi := &iso9660.ElToritoEntry{Platform: iso9660.EFI, Emulation: iso9660.NoEmulation, BootFile: "/esp.img"}
	uefi.SetLoadSize(1) // its size does not fit into the field: firmware reads up to the end
	return fs.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: "HOLDFAST",
		ElTorito: &iso9660.ElTorito{BootCatalog: "/boot.cat", HideBootCatalog: true,
			Entries: []*iso9660.ElToritoEntry{bios, uefi}}})
}
