package pid1

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mount mounts the usual file systems, and connects the standard files to the console.
func Mount() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil { //nolint:gosec // as on every system
			return fmt.Errorf("create %s: %w", m.dir, err)
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, unix.MS_NOSUID, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	console, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return nil // without a console only the output is lost
	}
	for fd := range 3 {
		if err := unix.Dup2(int(console.Fd()), fd); err != nil {
			return fmt.Errorf("use the console: %w", err)
		}
	}
	return nil
}

// LoadModules loads the drivers in dir, in the order of its file "order", where each one
// follows those it needs. Failures are only logged, because it is not known which drivers
// this machine needs.
func LoadModules(dir string, log *slog.Logger) {
	f, err := os.Open(filepath.Join(dir, "order"))
	if err != nil {
		log.Info("no modules to load", "error", err)
		return
	}
	defer func() { _ = f.Close() }()
	loaded, others := 0, 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name := strings.TrimSpace(lines.Text())
		if name == "" {
			continue
		}
		err := loadModule(filepath.Join(dir, name))
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
			others++ // the hardware or its bus is absent
			continue
		}
		if err != nil {
			log.Warn("cannot load module", "module", name, "error", err)
			continue
		}
		loaded++
	}
	log.Info("modules loaded", "modules", loaded, "not_of_this_machine", others)
}

// Randomness blocks until the kernel's random number generator is ready. A machine without
// a hardware generator starts collecting entropy only when a process waits for it. DHCP
// transactions and host keys need it, and the DHCP library does not wait.
func Randomness(log *slog.Logger) {
	start := time.Now()
	var b [16]byte
	for {
		_, err := unix.Getrandom(b[:], 0)
		if err == nil || !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if took := time.Since(start); took > time.Second {
		log.Info("waited for randomness", "took", took.Round(100*time.Millisecond))
	}
}

func loadModule(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags := 0
	if !strings.HasSuffix(name, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE // .ko.xz, of newer kernels
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Restart restarts the machine. It returns only if the kernel refuses.
func Restart() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		return fmt.Errorf("restart the machine: %w", err)
	}
	return nil
}
