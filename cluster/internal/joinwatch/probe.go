package joinwatch

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// service is the kind of service at a port.
type service int

const (
	unknownService service = iota
	httpService
	grpcService
	raftService
)

// http2Hello is the preface of HTTP/2 with empty settings. gRPC answers it with its settings, and
// an HTTP/1 server with an error.
const http2Hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

const settingsFrame = 4

// probe returns the service at an address that does not understand gossip.
func probe(ctx context.Context, addr string) service {
	if s := probePlain(ctx, addr); s != unknownService {
		return s
	}
	return probeTLS(ctx, addr)
}

func probePlain(ctx context.Context, addr string) service {
	c, err := dial(ctx, addr)
	if err != nil {
		return unknownService
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte(http2Hello)); err != nil {
		return unknownService
	}
	b := make([]byte, 9)
	n, _ := c.Read(b)
	switch {
	case strings.HasPrefix(string(b[:n]), "HTTP/"):
		return httpService
	case n >= 4 && b[3] == settingsFrame:
		return grpcService
	}
	return unknownService
}

// probeTLS distinguishes the ports by the protocols that they accept. It sends nothing but the
// handshake. The Raft port accepts any, because it chooses none.
func probeTLS(ctx context.Context, addr string) service {
	found := unknownService
	for _, p := range []struct {
		protocol string
		service  service
	}{{"http/1.1", httpService}, {"h2", grpcService}} {
		c, err := dial(ctx, addr)
		if err != nil {
			return unknownService
		}
		s := tls.Client(c, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{p.protocol},
			InsecureSkipVerify: true, //nolint:gosec // it asks for the protocol and exchanges no data
		})
		err = s.HandshakeContext(ctx)
		got := s.ConnectionState().NegotiatedProtocol
		_ = c.Close()
		switch {
		case err == nil && got == p.protocol:
			return p.service
		case err == nil:
			found = raftService
		case !strings.Contains(err.Error(), "no application protocol"):
			return unknownService
		}
	}
	return found
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if most := time.Now().Add(askTime / 2); !ok || most.Before(deadline) {
		deadline = most
	}
	return c, c.SetDeadline(deadline)
}
