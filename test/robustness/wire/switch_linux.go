package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// queued is the number of packets in transit on a slow link; further ones are lost.
const queued = 4096

// Switch connects some hosts, each in its own namespace, with each other and with the
// driver. The driver's namespace is that of the calling process, which must be a private
// one (see package harness).
type Switch struct {
	hosts []*host // the driver's is the last
	links *links
	late  map[[2]int]chan packet
	wg    sync.WaitGroup
}

type packet struct {
	due  time.Time
	data []byte
}

// New returns a network of n hosts and the driver. The seed determines which packets a
// lossy link loses.
func New(n int, seed int64) (*Switch, error) {
	s := &Switch{links: newLinks(n+1, rand.New(rand.NewPCG(uint64(seed), 0))), late: map[[2]int]chan packet{}}
	for i := range n {
		h, err := newHost(address(i))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.hosts = append(s.hosts, h)
	}
	driver := &host{addr: address(n)}
	s.hosts = append(s.hosts, driver)
	if err := driver.connect(); err != nil {
		return nil, errors.Join(fmt.Errorf("connect the driver: %w", err), s.close())
	}
	return s, nil
}

func address(i int) string { return fmt.Sprintf("127.77.0.%d", i+1) }

// Addr returns the address of a host; the driver's follows the last host's.
func (s *Switch) Addr(i int) string { return s.hosts[i].addr }

// Driver returns the number of the driver's host.
func (s *Switch) Driver() int { return len(s.hosts) - 1 }

// Enter moves the calling thread into a host's namespace. The thread must be and remain
// locked.
func (s *Switch) Enter(i int) error { return s.hosts[i].enter() }

// Set changes the link from one host to another, for every packet from now on.
func (s *Switch) Set(from, to int, l Link) { s.links.set(from, to, l) }

// Clear makes every link perfect.
func (s *Switch) Clear() { s.links.clear() }

// Lost returns the number of lost packets so far: a fault that lost none had no effect.
func (s *Switch) Lost() uint64 { return s.links.dropped() }

// Run carries packets until ctx ends.
func (s *Switch) Run(ctx context.Context) error {
	for from := range s.hosts {
		for to := range s.hosts {
			late := make(chan packet, queued)
			s.late[[2]int{from, to}] = late
			s.wg.Go(func() { s.deliverLate(ctx, late, s.hosts[to].tun) })
		}
	}
	for from, h := range s.hosts {
		s.wg.Go(func() { s.carry(from, h.tun) })
	}
	<-ctx.Done()
	err := s.close()
	s.wg.Wait()
	return err
}

// carry ends when the host's file is closed.
func (s *Switch) carry(from int, tun *os.File) {
	buf := make([]byte, mtu+100)
	for {
		n, err := tun.Read(buf)
		if err != nil {
			return
		}
		to, ok := s.destination(buf[:n])
		if !ok {
			continue
		}
		delay, fate := s.links.pass(from, to, buf[:n])
		switch {
		case fate == vanishes:
		case fate == refused:
			_, _ = tun.Write(reset(buf[:n]))
		case delay == 0:
			_, _ = s.hosts[to].tun.Write(buf[:n]) // a full queue loses it: TCP retransmits
		default:
			select {
			case s.late[[2]int{from, to}] <- packet{time.Now().Add(delay), append([]byte(nil), buf[:n]...)}:
			default:
			}
		}
	}
}

// destination returns the host that an IPv4 packet is addressed to.
func (s *Switch) destination(p []byte) (int, bool) {
	if len(p) < 20 || p[0]>>4 != 4 {
		return 0, false
	}
	to := int(p[19]) - 1
	return to, to >= 0 && to < len(s.hosts)
}

// deliverLate delivers the packets of one slow link, in order.
func (s *Switch) deliverLate(ctx context.Context, late <-chan packet, tun *os.File) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-late:
			wait.Reset(time.Until(p.due))
			select {
			case <-wait.C:
				_, _ = tun.Write(p.data)
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *Switch) close() error {
	var errs []error
	for _, h := range s.hosts {
		errs = append(errs, h.close())
	}
	return errors.Join(errs...)
}
