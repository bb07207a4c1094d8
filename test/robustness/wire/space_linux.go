package wire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// mtu is far larger than in real networks, because each packet costs the switch two system
// calls.
const mtu = 16_000

// device is the name of a host's only interface besides lo.
const device = "tun0"

// host is one end of the network: a namespace, and the file of its packets.
type host struct {
	addr string   // 127.77.0.x: a loopback address for the product, an ordinary address here
	ns   *os.File // nil for the driver's
	tun  *os.File
}

// newHost returns a namespace with an interface.
func newHost(addr string) (*host, error) {
	h := &host{addr: addr}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread, which has left our namespace, ends with the goroutine.
		runtime.LockOSThread()
		done <- h.enterNew()
	}()
	if err := <-done; err != nil {
		return nil, errors.Join(fmt.Errorf("make a namespace for %s: %w", addr, err), h.close())
	}
	return h, nil
}

func (h *host) enterNew() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leave the namespace: %w", err)
	}
	var err error
	if h.ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	return h.connect()
}

// connect creates the interface in the calling thread's namespace.
func (h *host) connect() error {
	// Loopback addresses are routed, except 127.0.0.1.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("1"), 0); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(device)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make %s: %w", device, err), unix.Close(fd))
	}
	h.tun = os.NewFile(uintptr(fd), device+" of "+h.addr)
	for _, args := range []string{
		"link set lo up",
		"addr flush dev lo",
		"addr add 127.0.0.1/32 dev lo",
		fmt.Sprintf("addr add %s/24 dev %s scope global", h.addr, device),
		fmt.Sprintf("link set %s mtu %d txqueuelen 10000 up", device, mtu),
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// enter moves the calling thread into the namespace.
func (h *host) enter() error {
	if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the namespace of %s: %w", h.addr, err)
	}
	return nil
}

func (h *host) close() error {
	var errs []error
	for _, f := range []*os.File{h.tun, h.ns} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
