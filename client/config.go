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
	"strings"
	"time"

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
		addr, err := normalizeAddr(a)
		if err != nil {
			return c, err
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

func normalizeAddr(addr string) (string, error) {
	addr = strings.TrimSpace(addr)
	bare := strings.Trim(addr, "[]")
	if ip, err := netip.ParseAddr(bare); err == nil {
		return net.JoinHostPort(ip.String(), DefaultPort), nil
	}
	if addr != "" && !strings.Contains(addr, ":") {
		return net.JoinHostPort(addr, DefaultPort), nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" || strings.Contains(addr, "/") {
		return "", fmt.Errorf("dial: address %q is not host:port, e.g. 127.0.0.1:%s", addr, DefaultPort)
	}
	return addr, nil
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
