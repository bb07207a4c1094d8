package bmc

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/bmclib"
	"github.com/holdfast-metal/holdfast/providers/bmc/vendor"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Protocol is a protocol to reach BMCs with.
type Protocol string

// The protocols. Auto tries the last one that worked, then Redfish, then IPMI if there is no
// Redfish.
const (
	Auto    Protocol = "auto"
	Redfish Protocol = "redfish"
	IPMI    Protocol = "ipmi"
)

// vendorPrefix is the prefix of protocols that are drivers of bmclib: bmclib-rpc, bmclib-amt,
// bmclib-dell, … (package vendor has the names). They are never probed for: a probe is a login, and
// the BMC counts each refused one.
const vendorPrefix = bmclib.Prefix

// vendor returns the name of bmclib's driver, or "" for other protocols.
func (p Protocol) vendor() string {
	name, _ := strings.CutPrefix(string(p), vendorPrefix)
	if name == string(p) {
		return ""
	}
	return name
}

// ProtocolLabel is the label of a machine that overrides the protocol of its provider.
const ProtocolLabel = "bmc-protocol"

func (p Protocol) check() error {
	switch p {
	case Auto, Redfish, IPMI:
		return nil
	}
	if slices.Contains(vendor.Names(), p.vendor()) {
		return nil
	}
	return fmt.Errorf("protocol %q is not one of redfish, ipmi, auto, %s%s",
		p, vendorPrefix, strings.Join(vendor.Names(), ", "+vendorPrefix))
}

// endpoint is the parsed address of a machine's BMC.
type endpoint struct {
	host    string   // without port and brackets
	redfish string   // scheme and authority, e.g. "https://10.0.0.7"
	ipmi    string   // port; empty for the configured one
	port    string   // as in the address
	system  string   // path or id of the system, if the BMC manages several; else empty
	only    Protocol // the protocol that the address implies; empty if none
}

// key identifies the BMC. Endpoints with the same key share sessions and limits.
func (e endpoint) key() string {
	switch e.only {
	case IPMI:
		return "ipmi://" + net.JoinHostPort(e.host, e.ipmi)
	case vendorPrefix + vendor.RPC, vendorPrefix + vendor.AMT:
		return e.only.vendor() + "://" + net.JoinHostPort(e.host, e.port)
	}
	return e.redfish
}

// parseEndpoint parses Machine.spec.bmc_endpoint: host, host:port,
// https://host[:port][/redfish/v1/Systems/ID], http:// if allowed, ipmi://host[:port],
// amt://host[:port], or rpc://NAME with the machine's name at the RPC service.
func parseEndpoint(s string, allowHTTP bool) (endpoint, error) {
	bad := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf(
			"bmc_endpoint %q %s: want host[:port], or one with https://, ipmi://, amt:// or rpc://",
			text.Clip(s, 100), why)
	}
	if i := strings.LastIndexByte(s, '@'); i >= 0 { // drop credentials before the text is printed
		s = s[i+1:]
		return bad("contains a user name or password: use bmc_credentials_ref")
	}
	var e endpoint
	raw := s
	if !strings.Contains(s, "://") {
		if ip := net.ParseIP(s); ip != nil && strings.Contains(s, ":") {
			raw = "[" + s + "]"
		}
		raw = "//" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return bad("is not an address")
	}
	e.host, e.port = u.Hostname(), u.Port()
	switch u.Scheme {
	case "":
		if u.Port() == "623" {
			e.only = IPMI
		}
		u.Scheme = "https"
	case "https":
		e.only = Redfish
	case "http":
		if !allowHTTP {
			return bad("sends the password in clear text, and the provider does not have allow_http")
		}
		e.only = Redfish
	case "ipmi":
		e.only = IPMI
	case vendor.AMT, vendor.RPC:
		e.only = vendorPrefix + Protocol(u.Scheme)
	default:
		return bad("has the scheme " + u.Scheme)
	}
	if e.only == IPMI {
		e.ipmi = cmp.Or(u.Port(), "623")
	}
	if e.system = strings.TrimRight(u.Path, "/"); e.system != "" && e.only != Redfish && e.only != "" {
		return bad("has a path")
	}
	if e.system == "/redfish" || e.system == "/redfish/v1" || e.system == "/redfish/v1/Systems" {
		e.system = ""
	}
	e.redfish = u.Scheme + "://" + u.Host
	return e, nil
}

// protocols returns the protocols to try with a machine, in order.
func (e endpoint) protocols(m providers.Machine, configured, remembered Protocol) ([]Protocol, error) {
	p := configured
	if l := m.GetLabels()[ProtocolLabel]; l != "" {
		p = Protocol(l)
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("label %s: %w", ProtocolLabel, err)
		}
	}
	switch {
	case e.only == "" && p == Auto && remembered == IPMI:
		return []Protocol{IPMI, Redfish}, nil
	case e.only == "" && p == Auto:
		return []Protocol{Redfish, IPMI}, nil
	case e.only == "":
		return []Protocol{p}, nil
	case p == Auto || p == e.only:
		return []Protocol{e.only}, nil
	case e.only == IPMI && p == vendorPrefix+vendor.Ipmitool, e.only == Redfish && p.overHTTPS():
		return []Protocol{p}, nil
	}
	return nil, fmt.Errorf("bmc_endpoint is for %s, but the protocol is set to %s: change one", e.only, p)
}

// overHTTPS reports whether p is a driver of bmclib for a BMC at an https:// address.
func (p Protocol) overHTTPS() bool {
	switch p.vendor() {
	case "", vendor.Ipmitool, vendor.AMT, vendor.RPC:
		return false
	}
	return true
}
