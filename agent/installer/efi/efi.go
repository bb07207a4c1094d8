// Package efi adds a disk's boot loader to the boot menu of UEFI firmware (UEFI
// Specification 2.10, §3.1 and §10.3).
//
// It changes only the Boot#### variables that it created, and their places in BootOrder. It
// works on a directory in the format of efivarfs, and mounts nothing.
package efi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf16"

	"github.com/holdfast-metal/holdfast/agent/installer/table"
)

// Title is the name of the entry in the firmware's menu.
const Title = "Holdfast"

const (
	global     = "-8be4df61-93ca-11d2-aa0d-00e098032b8c" // EFI_GLOBAL_VARIABLE
	attributes = 1 | 2 | 4                               // non-volatile, boot services access, runtime access
	active     = 1                                       // LOAD_OPTION_ACTIVE
	most       = 64 << 10                                // maximum size of a variable, in bytes
)

// Loader is a boot loader on an EFI system partition.
type Loader struct {
	table.System
	Path string // with backslashes
}

// Enter creates an entry for the loader, or updates the one of an earlier installation, and
// returns its name. The entry becomes first in the boot order. It becomes second if the
// entry that booted the machine is first, so that a machine that boots from the network
// first continues to do so.
func Enter(dir string, l Loader) (name string, err error) {
	used, mine, err := entries(dir)
	if err != nil {
		return "", err
	}
	order, err := numbers(dir, "BootOrder")
	if err != nil {
		return "", err
	}
	current, err := numbers(dir, "BootCurrent")
	if err != nil {
		return "", err
	}
	n := mine
	for n < 0 || n != mine && (used[uint16(n)] || slices.Contains(order, uint16(n))) {
		if n++; n > 0xffff {
			return "", errors.New("create a boot entry: all numbers are in use")
		}
	}
	name = fmt.Sprintf("Boot%04X", n)
	if err := write(dir, name, l.option()); err != nil {
		return "", fmt.Errorf("write the boot entry %s: %w", name, err)
	}
	at := 0
	if len(order) > 0 && len(current) > 0 && order[0] == current[0] && order[0] != uint16(n) {
		at = 1
	}
	order = slices.DeleteFunc(order, func(o uint16) bool { return o == uint16(n) })
	var b []byte
	for _, o := range slices.Insert(order, at, uint16(n)) {
		b = binary.LittleEndian.AppendUint16(b, o)
	}
	if err := write(dir, "BootOrder", b); err != nil {
		return "", fmt.Errorf("write the boot order: %w", err)
	}
	return name, nil
}

// entries returns the numbers in use, and the one that this package has created, or -1.
func entries(dir string) (used map[uint16]bool, mine int, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "Boot*"+global))
	if err != nil {
		return nil, 0, fmt.Errorf("list the boot entries: %w", err)
	}
	used, mine = map[uint16]bool{}, -1
	numbered := regexp.MustCompile(`^Boot([0-9A-F]{4})-`)
	for _, f := range found {
		m := numbered.FindStringSubmatch(filepath.Base(f))
		if m == nil {
			continue
		}
		n, err := strconv.ParseUint(m[1], 16, 16)
		if err != nil {
			continue
		}
		used[uint16(n)] = true
		data, err := read(dir, "Boot"+m[1])
		if err == nil && len(data) > 6 && bytes.HasPrefix(data[6:], text(Title)) && mine < 0 {
			mine = int(n)
		}
	}
	return used, mine, nil
}

// option returns an EFI_LOAD_OPTION (§3.1.3) with a hard drive partition (§10.3.5.1) and a
// file on it (§10.3.5.4).
func (l Loader) option() []byte {
	le := binary.LittleEndian
	disk := []byte{4, 1, 42, 0}
	disk = le.AppendUint32(disk, uint32(l.Partition))
	disk = le.AppendUint64(disk, l.Start)
	disk = le.AppendUint64(disk, l.Count)
	disk = append(disk, l.ID[:]...)
	if l.GPT {
		disk = append(disk, 2, 2)
	} else {
		disk = append(disk, 1, 1)
	}
	path := text(l.Path)
	file := le.AppendUint16([]byte{4, 4}, uint16(4+len(path)))
	list := slices.Concat(disk, file, path, []byte{0x7f, 0xff, 4, 0})
	b := le.AppendUint32(nil, active)
	b = le.AppendUint16(b, uint16(len(list)))
	return slices.Concat(b, text(Title), list)
}

// text returns a string in the firmware's encoding, with its terminator.
func text(s string) (b []byte) {
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// numbers reads a variable that lists entries. A missing variable is empty.
func numbers(dir, name string) (all []uint16, err error) {
	data, err := read(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for ; len(data) >= 2; data = data[2:] {
		all = append(all, binary.LittleEndian.Uint16(data))
	}
	return all, nil
}

// read returns the data of a variable, without the leading attributes.
func read(dir, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, name+global))
	if err != nil {
		return nil, fmt.Errorf("read the firmware's %s: %w", name, err)
	}
	if len(b) < 4 || len(b) > most {
		return nil, fmt.Errorf("read the firmware's %s: it has %d bytes, want 4 to %d", name, len(b), most)
	}
	return b[4:], nil
}

// write sets a variable. The kernel requires a single write, and replaces the whole value.
func write(dir, name string, data []byte) error {
	// efivarfs creates it with mode 0644.
	f, err := os.OpenFile(filepath.Join(dir, name+global), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, attributes), data...))
	return errors.Join(err, f.Close())
}
