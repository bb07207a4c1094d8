package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wallClock replaces the vDSO's clock_gettime. It asks the kernel, and adds an offset to
// the wall clock (CLOCK_REALTIME). The offset, in nanoseconds, follows the code. It needs
// no stack.
var wallClock = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228: clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME?
	0x75, 0x28, // jne done
	0x48, 0x69, 0x0e, 0x00, 0xca, 0x9a, 0x3b, // imul rcx, [rsi], 1000000000
	0x48, 0x03, 0x4e, 0x08, // add rcx, [rsi+8]
	0x48, 0x03, 0x0d, 0x1b, 0x00, 0x00, 0x00, // add rcx, [rip+offset]
	0x48, 0x89, 0xc8, // mov rax, rcx
	0x48, 0x99, // cqo
	0xb9, 0x00, 0xca, 0x9a, 0x3b, // mov ecx, 1000000000
	0x48, 0xf7, 0xf9, // idiv rcx
	0x48, 0x89, 0x06, // mov [rsi], rax
	0x48, 0x89, 0x56, 0x08, // mov [rsi+8], rdx
	0x31, 0xc0, // xor eax, eax
	0xc3,                   // done: ret
	0x90, 0x90, 0x90, 0x90, // to a multiple of 8
}

const jumpSize = 5 // of the jump to wallClock

// vdso is the code that the kernel provides to a process for reading clocks. It can be
// changed in a single process, because the kernel copies a page on write.
type vdso struct {
	mem   *os.File
	entry int64 // of clock_gettime
	room  int64 // place for wallClock: the end of the last page, which is unused
	first [jumpSize]byte
}

// openVDSO finds the vDSO of a process.
func openVDSO(pid int) (*vdso, error) {
	v, err := findVDSO(strconv.Itoa(pid))
	if err != nil {
		return nil, fmt.Errorf("find the clock of process %d: %w", pid, err)
	}
	own, err := findVDSO("self") // the original code
	if err != nil {
		return nil, errors.Join(err, v.mem.Close())
	}
	v.first = own.first
	return v, own.mem.Close()
}

func findVDSO(pid string) (*vdso, error) {
	from, to, err := vdsoRange(pid)
	if err != nil {
		return nil, err
	}
	mem, err := os.OpenFile("/proc/"+pid+"/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	image := make([]byte, to-from)
	if _, err := mem.ReadAt(image, from); err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	at, err := clockGettime(image)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the vDSO: %w", err), mem.Close())
	}
	v := &vdso{mem: mem, entry: from + at, room: to - int64(len(wallClock)) - 8, first: [jumpSize]byte(image[at:])}
	if last := image[v.room-from:]; len(bytes.Trim(last, "\x00")) > 0 && !bytes.HasPrefix(last, wallClock) {
		return nil, errors.Join(errors.New("the end of the vDSO is in use"), mem.Close())
	}
	return v, nil
}

func vdsoRange(pid string) (from, to int64, err error) {
	maps, err := os.ReadFile("/proc/" + pid + "/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, errors.New("no vDSO found")
}

func clockGettime(image []byte) (int64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(syms, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 {
		return 0, errors.New("no clock_gettime found")
	}
	return int64(syms[i].Value), nil
}

// set sets or changes the offset of the wall clock. The process must be stopped with none
// of its threads within jumpSize bytes of entry, unless wallClock is installed already.
func (v *vdso) set(offset time.Duration) error {
	code := binary.LittleEndian.AppendUint64(slices.Clone(wallClock), uint64(offset))
	if _, err := v.mem.WriteAt(code, v.room); err != nil {
		return fmt.Errorf("write to the vDSO: %w", err)
	}
	return v.begin(binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(v.room-v.entry-jumpSize)))
}

// move changes the offset of a running process.
func (v *vdso) move(offset time.Duration) error {
	_, err := v.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(offset)), v.room+int64(len(wallClock)))
	return err
}

// restore restores the original code. Threads in wallClock may continue.
func (v *vdso) restore() error { return v.begin(v.first[:]) }

func (v *vdso) begin(with []byte) error {
	if _, err := v.mem.WriteAt(with, v.entry); err != nil {
		return fmt.Errorf("write to the vDSO: %w", err)
	}
	return nil
}
