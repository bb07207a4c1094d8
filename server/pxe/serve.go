package pxe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"golang.org/x/sync/errgroup"
)

// reopen is the retry delay after a failure, such as an interface that went down.
const reopen = 5 * time.Second

// Run replies to firmware until ctx ends. It fails at once if it cannot listen: ports below
// 1024 need root, or CAP_NET_BIND_SERVICE and CAP_NET_RAW. Later failures are retried,
// because an interface can come back. A DHCP server on the same host can share port 67 if
// it allows that (dnsmasq does with bind-interfaces).
func (s *Server) Run(ctx context.Context) error {
	open, err := s.open()
	if err != nil {
		return err
	}
	s.log.Info("replying to firmware that boots from the network",
		"interface", s.cfg.Interface, "address", s.cfg.Host, "programs", s.cfg.Dir)
	for {
		err := s.serve(ctx, open)
		for err != nil && ctx.Err() == nil {
			s.log.Warn("cannot reply to firmware, will retry", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(reopen):
				open, err = s.open()
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// open opens the sockets.
func (s *Server) open() (open sockets, err error) {
	host := net.IP(s.cfg.Host.AsSlice())
	defer func() {
		if err != nil {
			open.close()
			err = fmt.Errorf("answer firmware on %s: %w", s.cfg.Interface, err)
		}
	}()
	if open.dhcp, err = server4.NewIPv4UDPConn(s.cfg.Interface, &net.UDPAddr{Port: dhcpPort}); err != nil {
		return open, err
	}
	if open.proxy, err = net.ListenUDP("udp4", &net.UDPAddr{IP: host, Port: proxyPort}); err != nil {
		return open, err
	}
	open.tftp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: host, Port: tftpPort})
	return open, err
}

func (o sockets) close() {
	for _, c := range []*net.UDPConn{o.dhcp, o.proxy, o.tftp} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// serve replies on sockets until ctx ends or one fails, and then closes them.
func (s *Server) serve(ctx context.Context, open sockets) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		open.close()
		return nil
	})
	g.Go(func() error { return s.listen(ctx, open.dhcp, false) })
	g.Go(func() error { return s.listen(ctx, open.proxy, true) })
	g.Go(func() error { return s.serveFiles(ctx, open.tftp) })
	return g.Wait()
}

// listen replies to the packets of a socket. Several are handled concurrently, because a
// lookup may wait for the leader. Packets over the limit are dropped; firmware retries.
func (s *Server) listen(ctx context.Context, conn *net.UDPConn, proxy bool) error {
	var g errgroup.Group
	defer func() { _ = g.Wait() }()
	g.SetLimit(maxLookups)
	b := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFromUDP(b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("read from %s: %w", conn.LocalAddr(), err)
		}
		p, err := dhcpv4.FromBytes(b[:n])
		if err != nil {
			continue // malformed packets are ignored
		}
		g.TryGo(func() error {
			err := s.reply(ctx, conn, p, from, proxy)
			if err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				s.log.Warn("replying to firmware failed", "mac", p.ClientHWAddr.String(), "error", err)
			}
			return nil
		})
	}
}

func (s *Server) reply(ctx context.Context, conn *net.UDPConn, p *dhcpv4.DHCPv4, from *net.UDPAddr, proxy bool) error {
	answer, err := s.answer(ctx, p, proxy)
	if answer == nil || err != nil {
		return err
	}
	s.log.Info("replied to firmware", "mac", p.ClientHWAddr.String(),
		"class", p.ClassIdentifier(), "file", answer.BootFileName)
	_, err = conn.WriteToUDP(answer.ToBytes(), answerTo(p, from))
	return err
}

// answerTo returns the destination of a reply: the relay that forwarded the request, else
// the sender if it has an address, else the broadcast address (RFC 2131 §4.1).
func answerTo(p *dhcpv4.DHCPv4, from *net.UDPAddr) *net.UDPAddr {
	switch {
	case !p.GatewayIPAddr.IsUnspecified() && p.GatewayIPAddr != nil:
		return &net.UDPAddr{IP: p.GatewayIPAddr, Port: dhcpPort}
	case !from.IP.IsUnspecified():
		return from
	}
	return &net.UDPAddr{IP: net.IPv4bcast, Port: 68}
}
