package sshexec

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// parseEndpoint parses Machine.spec.ssh_endpoint, host or host:port, and returns the address to
// dial. IPv6 addresses may have brackets.
func parseEndpoint(s string) (addr string, err error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("ssh_endpoint %s: want host or host:port", why)
	}
	if s == "" {
		return bad("is empty")
	}
	if strings.Contains(s, "@") { // not shown, because it may contain a password
		return bad("contains a user name: use the secret of ssh_credentials_ref")
	}
	if strings.ContainsAny(s, "/ \t\r\n") {
		return bad(strconv.Quote(s) + " is not an address")
	}
	if net.ParseIP(strings.Trim(s, "[]")) != nil {
		return net.JoinHostPort(strings.Trim(s, "[]"), "22"), nil
	}
	host, port := s, "22"
	if strings.Contains(s, ":") {
		if host, port, err = net.SplitHostPort(s); err != nil {
			return bad(strconv.Quote(s) + " is not an address")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return bad(strconv.Quote(s) + " has no host or an invalid port")
	}
	return net.JoinHostPort(host, port), nil
}
