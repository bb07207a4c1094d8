// Package vendor opens drivers of bmclib by name: vendors' own interfaces, Intel AMT, and BMC
// services with bmclib's RPC.
//
// It owns the list of drivers, their configuration and the meaning of their errors. It must not
// decide when a driver is used, and it adds no evidence. Package bmclib enforces the budgets and
// the not-after time, and package bmc chooses the driver.
package vendor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"net"
	"net/http"
	"strconv"

	lib "github.com/bmc-toolbox/bmclib/v2/bmc"
	"github.com/bmc-toolbox/bmclib/v2/providers/asrockrack"
	"github.com/bmc-toolbox/bmclib/v2/providers/dell"
	"github.com/bmc-toolbox/bmclib/v2/providers/intelamt"
	"github.com/bmc-toolbox/bmclib/v2/providers/ipmitool"
	"github.com/bmc-toolbox/bmclib/v2/providers/openbmc"
	"github.com/bmc-toolbox/bmclib/v2/providers/rpc"
	"github.com/bmc-toolbox/bmclib/v2/providers/supermicro"
	"github.com/bmc-toolbox/common"
	"github.com/go-logr/logr"
)

// The names of the drivers.
const (
	RPC        = "rpc"
	AMT        = "amt"
	ASRockRack = "asrockrack"
	Dell       = "dell"
	OpenBMC    = "openbmc"
	Supermicro = "supermicro"
	Ipmitool   = "ipmitool"
)

// Names returns the names of the drivers.
func Names() []string {
	return []string{RPC, AMT, ASRockRack, Dell, OpenBMC, Supermicro, Ipmitool}
}

// Config is the BMC of a driver and how to reach it.
type Config struct {
	Host, Port     string // an empty port is the driver's own
	User, Password string // RPC: Password signs the requests (HMAC-SHA256), User is not sent
	HTTP           *http.Client
	RPCURL         string // of the service; RPC only
	IpmitoolPath   string // Ipmitool only
	CipherSuite    string // Ipmitool only
}

// Driver is one machine behind one driver. Some of them ignore their contexts.
type Driver interface {
	Open(ctx context.Context) error
	Close(ctx context.Context) error
	PowerStateGet(ctx context.Context) (string, error)
	PowerSet(ctx context.Context, state string) (bool, error)
}

// Optional capabilities of drivers.
type (
	// BootSetter sets the next boot device: pxe, disk, cdrom.
	BootSetter = lib.BootDeviceSetter
	// Inventory reads the parts of the machine, with their firmware versions.
	Inventory interface {
		Inventory(ctx context.Context) (*common.Device, error)
	}
)

// New returns the driver with the given name. Nothing is sent before Open.
func New(name string, c Config) (Driver, error) {
	log := logr.Discard() // the drivers log requests with their headers
	port := func(own string) string {
		return cmp.Or(c.Port, own)
	}
	switch name {
	case RPC:
		if c.RPCURL == "" {
			return nil, errors.New("driver rpc: the provider has no rpc_url")
		}
		p := rpc.New(c.RPCURL, c.Host, rpc.Secrets{})
		p.HTTPClient = c.HTTP
		p.LogNotificationsDisabled = true
		p.Opts.HMAC.Hashes = map[rpc.Algorithm][]hash.Hash{}
		if c.Password != "" {
			p.Opts.HMAC.Secrets = rpc.Secrets{rpc.SHA256: {c.Password}}
			p.Opts.HMAC.Hashes = rpc.CreateHashes(p.Opts.HMAC.Secrets)
		}
		return p, nil
	case AMT:
		n, err := strconv.ParseUint(port("16992"), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("driver amt: port %q: %w", c.Port, err)
		}
		scheme := "http" // with digest authentication
		if n == 16993 {
			scheme = "https"
		}
		return intelamt.New(c.Host, c.User, c.Password,
			intelamt.WithPort(uint32(n)), intelamt.WithHostScheme(scheme)), nil
	case ASRockRack:
		return asrockrack.NewWithOptions(net.JoinHostPort(c.Host, port("443")), c.User, c.Password, log,
			asrockrack.WithHTTPClient(c.HTTP)), nil
	case Dell:
		return dell.New(c.Host, c.User, c.Password, log,
			dell.WithHttpClient(c.HTTP), dell.WithPort(port("443"))), nil
	case OpenBMC:
		return openbmc.New(c.Host, c.User, c.Password, log,
			openbmc.WithHttpClient(c.HTTP), openbmc.WithPort(port("443"))), nil
	case Supermicro:
		return supermicro.NewClient(c.Host, c.User, c.Password, log,
			supermicro.WithHttpClient(c.HTTP), supermicro.WithPort(port("443"))), nil
	case Ipmitool:
		return ipmitool.New(c.Host, c.User, c.Password, ipmitool.WithPort(port("623")),
			ipmitool.WithCipherSuite(c.CipherSuite), ipmitool.WithIpmitoolPath(c.IpmitoolPath))
	}
	return nil, fmt.Errorf("driver %q is not one of %v", name, Names())
}
