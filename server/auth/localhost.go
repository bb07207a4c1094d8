package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// localHost refuses a request without authentication (--insecure) whose Host header is
// not a loopback name. A page of another site can resolve its own name to 127.0.0.1 (DNS
// rebinding). The browser then treats this peer as the page's origin, and
// CrossOriginProtection does not apply. Public routes also accept other IP addresses,
// which cannot be rebound: a virtual machine uses one to reach the loopback of its host.
func (g *Gate) localHost(r *http.Request, public bool) *Error {
	if !g.cfg.Insecure || loopbackHost(r.Host, public) {
		return nil
	}
	g.metrics.refused.WithLabelValues(ReasonForeignHost).Inc()
	return denied(ReasonForeignHost,
		"refuse host %.100q: a peer with --insecure serves only loopback names: use localhost, 127.0.0.1 or [::1]",
		r.Host)
}

// loopbackHost reports whether a Host header is localhost or a loopback address, with or
// without a port. If anyIP is true, it accepts every IP address.
func loopbackHost(host string, anyIP bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return Loopback(host) || anyIP && err == nil
}

// Loopback reports whether a host without a port is localhost or a loopback address.
func Loopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}
