// Package pxe answers firmware that boots from the network. ProxyDHCP names the file to
// fetch (Preboot Execution Environment Specification 2.1, §2.2; RFC 4578; UEFI 2.10 §24.7
// for HTTP). TFTP serves the file itself (RFC 1350, RFC 2347; docs/netboot.md).
//
// It assigns no addresses; a separate DHCP server does. It owns the packets and the reply
// for each kind of firmware. InstallService, which is called for each packet, decides which
// machines get a reply. The package must not import the FSM or the cluster. Every peer may
// reply: the firmware accepts one reply, and all of them lead to the same boot script.
package pxe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Config configures a Server.
type Config struct {
	// Interface is the network interface on which machines are reached, such as "eno2".
	Interface string
	// Host is the peer's IPv4 address on that interface. Firmware fetches files over TFTP
	// from it.
	Host netip.Addr
	// BootPort is the port of the plain HTTP listener for machines on Host.
	BootPort uint16
	// Dir contains the programs: ipxe.efi, undionly.kpxe and others (Debian:
	// /usr/lib/ipxe).
	Dir string

	Logger *slog.Logger
}

// The ports of the protocols.
const (
	dhcpPort  = 67
	proxyPort = 4011
	tftpPort  = 69
)

// Limits of concurrent work. Firmware retries if a limit is reached.
const (
	maxLookups    = 32
	maxTransfers  = 64
	lookupTimeout = 3 * time.Second // firmware does not wait longer
)

// Installs returns the boot action of a machine (holdfastv1.InstallServiceClient). LookUpBoot has
// no side effects: the answer contains no token, and unknown machines are not registered.
type Installs interface {
	LookUpBoot(
		ctx context.Context, r *holdfastv1.BootMachineRequest, opts ...grpc.CallOption,
	) (*holdfastv1.BootMachineResponse, error)
}

// sockets are the sockets of a Server. Tests use their own.
type sockets struct {
	dhcp  *net.UDPConn // broadcasts on the interface
	proxy *net.UDPConn // packets addressed to this peer
	tftp  *net.UDPConn
}

// Server replies to firmware.
type Server struct {
	cfg      Config
	installs Installs
	log      *slog.Logger
	tries    tries
}

// New returns a Server. It fails if Host is not an IPv4 address or Dir does not exist.
func New(cfg Config, installs Installs) (*Server, error) {
	if !cfg.Host.Is4() {
		return nil, fmt.Errorf("answer firmware: %s is not an IPv4 address: PXE supports IPv4 only", cfg.Host)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, ".")); cfg.Dir == "" || err != nil {
		return nil, fmt.Errorf("answer firmware: find the boot programs: %w "+
			"(netboot_dir; Debian's package ipxe installs them in /usr/lib/ipxe)", errors.Join(err, os.ErrNotExist))
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Server{cfg: cfg, installs: installs, log: cfg.Logger, tries: newTries()}, nil
}
