// Package pxe answers firmware that boots from the network: with ProxyDHCP what to fetch (Preboot
// Execution Environment Specification 2.1, §2.2; RFC 4578; UEFI
// 2.10 §24.7 for HTTP), and with TFTP (RFC 1350, RFC 2347) the program itself (docs/netboot.md).
//
// It gives out no addresses: a DHCP server beside it does. It owns the packets, and the answer by
// kind of firmware. Which machine is answered at all is for InstallService to say, which is asked
// for each packet; it must not know the FSM or the cluster. Every peer may answer: the firmware
// takes one answer, and all of them lead to the same boot script.
package pxe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Config says where to answer.
type Config struct {
	// Interface is the network card that machines are behind, e.g. "eno2".
	Interface string
	// Host is the peer's IPv4 address there; what firmware fetches over TFTP comes from it.
	Host netip.Addr
	// BootPort is the port of the plain HTTP listener for machines, at Host.
	BootPort uint16
	// Dir has the programs: ipxe.efi, undionly.kpxe and the like (Debian: /usr/lib/ipxe).
	Dir string

	Logger *slog.Logger
}

// The ports of the protocols.
const (
	dhcpPort  = 67
	proxyPort = 4011
	tftpPort  = 69
)

// Limits of what a peer does at once. Firmware asks again.
const (
	maxQuestions = 32
	maxTransfers = 64
	askTime      = 3 * time.Second // for one question: firmware does not wait longer
)

// Boots says what a machine is to boot (InstallService.LookUpBoot). It changes nothing.
type Boots interface {
	Boots(ctx context.Context, mac, arch string) (*holdfastv1.BootMachineResponse, error)
}

// sockets are what a Server listens on; tests have their own.
type sockets struct {
	dhcp  *net.UDPConn // what is broadcast on the interface
	proxy *net.UDPConn // what is for this peer alone
	tftp  *net.UDPConn
}

// Server answers firmware.
type Server struct {
	cfg   Config
	boots Boots
	log   *slog.Logger
}

// New returns a Server. It fails where Host is no IPv4 address, or Dir is not there.
func New(cfg Config, boots Boots) (*Server, error) {
	if !cfg.Host.Is4() {
		return nil, fmt.Errorf("answer firmware: %s is no IPv4 address: PXE knows no other", cfg.Host)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, ".")); cfg.Dir == "" || err != nil {
		return nil, fmt.Errorf("answer firmware: find the programs that it boots: %w (netboot_dir; Debian's package ipxe has them in /usr/lib/ipxe)", errors.Join(err, os.ErrNotExist))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, boots: boots, log: cfg.Logger}, nil
}
