package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
)

// DefaultPort is the port of the gRPC API, used if an address has no port.
const DefaultPort = "7400"

// DefaultTimeout bounds a unary call whose context has no deadline.
const DefaultTimeout = 30 * time.Second

// Config configures a Client.
type Config struct {
	// Addrs are the gRPC addresses of one or more peers of one cluster, "host:port" or
	// "host" (port 7400). Any peer accepts any call. List all of them, so that the client
	// survives the loss of a peer.
	Addrs []string
	// Token is sent as a bearer token with each call. Without TLS it is sent to loopback
	// addresses only. If empty, no token is sent.
	Token string
	// Tokens returns the token of each call, in place of Token, for tokens that expire. It is
	// called concurrently, and its errors should be statuses.
	Tokens func(context.Context) (string, error)
	// TLS is used for every connection. Nil means no TLS.
	TLS *tls.Config
	// Timeout bounds a unary call, including all its tries, if its context has no deadline.
	// Zero means DefaultTimeout.
	Timeout time.Duration
	// ReconnectTimeout is how long a stream may be without a peer before it fails. Zero
	// means Timeout. If negative, only the context ends the stream.
	ReconnectTimeout time.Duration
	// LeaderTimeout is how long a unary call is retried while the peers answer that there is no
	// leader. Zero means as long as any other call.
	LeaderTimeout time.Duration
	// AbsenceTimeout is how long a unary call is retried while nothing listens at any address.
	// Unknown hosts end it within a second. Zero means as long as any other call.
	AbsenceTimeout time.Duration
	// Consistency applies to reads whose context sets none. The zero value is linearizable.
	Consistency Consistency
	// Logger receives retries at debug level and long waits as warnings. Nil disables
	// logging.
	Logger *slog.Logger
	// DialOptions are added to the dial options of every connection.
	DialOptions []grpc.DialOption
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Addrs) == 0 {
		return c, errors.New("dial: no address: pass one or more host:port")
	}
	var addrs []string
	for _, a := range c.Addrs {
		addr, err := ParseAddr(a)
		if err != nil {
			return c, fmt.Errorf("dial: %w", err)
		}
		if (c.Token != "" || c.Tokens != nil) && c.TLS == nil && !loopback(addr) {
			return c, fmt.Errorf("dial %s: refusing to send the token without TLS: "+
				"pass a CA certificate, or no token", addr)
		}
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	c.Addrs = addrs
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	c.ReconnectTimeout = cmp.Or(c.ReconnectTimeout, c.Timeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// ParseAddr returns the address of a peer as host:port. The text is host:port, or a host alone,
// which gets DefaultPort.
func ParseAddr(text string) (string, error) {
	addr := strings.TrimSpace(text)
	wrong := func(why string) (string, error) {
		return "", fmt.Errorf("address %q %s: want host:port, such as 127.0.0.1:%s", text, why, DefaultPort)
	}
	if strings.Contains(addr, "%") {
		return wrong("has a zone or a percent sign, which is not supported")
	}
	if ip, err := netip.ParseAddr(strings.Trim(addr, "[]")); err == nil {
		if i := strings.LastIndex(addr, ":"); ip.Is6() && addr[0] != '[' && likelyPort(addr[i+1:]) {
			return wrong(fmt.Sprintf("may end with a port or not: write [%s]:%s or [%s]", addr[:i], addr[i+1:], addr))
		}
		return net.JoinHostPort(ip.String(), DefaultPort), nil
	}
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		return wrong(fmt.Sprintf("is a URL: leave out %q", strings.TrimSuffix(addr, rest)))
	}
	if !strings.Contains(addr, ":") {
		addr = net.JoinHostPort(addr, DefaultPort)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return wrong("is not host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return wrong(fmt.Sprintf("has the port %q, not 1 to 65535", port))
	}
	if why := wrongHost(host); why != "" {
		return wrong(why)
	}
	return addr, nil
}

// likelyPort reports whether the last group of an IPv6 address without brackets was rather meant as
// a port.
func likelyPort(group string) bool { return len(group) == 4 && strings.Trim(group, "0123456789") == "" }

// wrongHost returns the reason why a text is neither the name nor the address of a host, or "".
func wrongHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	switch {
	case host == "":
		return "has no host"
	case strings.Trim(host, "0123456789.") == "":
		return "is not an address: an IPv4 address has four numbers from 0 to 255"
	case strings.ContainsFunc(host, func(r rune) bool {
		return r < utf8.RuneSelf && !strings.ContainsRune("-._", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}):
		return "has no name of a host"
	}
	return ""
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
