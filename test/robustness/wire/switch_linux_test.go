package wire_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/private"
	"github.com/holdfast-metal/holdfast/test/robustness/wire"
)

// TestSwitch cuts each direction of each link alone, for open connections too.
func TestSwitch(t *testing.T) {
	if !private.Again(t) {
		return
	}
	s, err := wire.New(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	conns := [2]*net.UDPConn{bind(t, s, 0), bind(t, s, 1)}
	// trip sends a packet and waits until it has arrived or is certainly lost.
	trip := func(from, to int) (time.Duration, bool) {
		lost, began := s.Lost(), time.Now()
		if _, err := conns[from].WriteTo([]byte{1}, conns[to].LocalAddr()); err != nil {
			t.Fatal(err)
		}
		for deadline := began.Add(30 * time.Second); s.Lost() == lost; {
			_ = conns[to].SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := conns[to].Read(make([]byte, 1)); err == nil {
				return time.Since(began), true
			}
			if time.Now().After(deadline) {
				t.Fatalf("a packet from %d to %d neither arrived nor was lost", from, to)
			}
		}
		_ = conns[to].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := conns[to].Read(make([]byte, 1))
		return 0, err == nil
	}
	for _, tc := range []struct {
		name         string
		there, back  wire.Link
		wantT, wantB bool
	}{
		{"perfect", wire.Link{}, wire.Link{}, true, true},
		{"one direction", wire.Link{Cut: true}, wire.Link{}, false, true},
		{"other direction", wire.Link{}, wire.Link{Cut: true}, true, false},
		{"isolated", wire.Link{Cut: true}, wire.Link{Loss: 1}, false, false},
		{"healed", wire.Link{}, wire.Link{Delay: 100 * time.Millisecond}, true, true},
	} {
		s.Set(0, 1, tc.there)
		s.Set(1, 0, tc.back)
		_, there := trip(0, 1)
		took, back := trip(1, 0)
		if there != tc.wantT || back != tc.wantB {
			t.Errorf("%s: got arrival %v and return %v, want %v and %v", tc.name, there, back, tc.wantT, tc.wantB)
		}
		if back && took < tc.back.Delay {
			t.Errorf("%s: got a delay of %s, want at least %s", tc.name, took, tc.back.Delay)
		}
	}
	s.Set(1, 0, wire.Link{Rate: 1000})
	if took, ok := trip(1, 0); !ok || took < 29*time.Millisecond { // 20 bytes of IP, 8 of UDP, 1 of ours
		t.Errorf("packet of 29 bytes on a link of 1000 bytes per second: got %s, %v, want 29ms or more", took, ok)
	}
	s.Clear()
	rejects(t, s)
	if s.Lost() != 5 {
		t.Errorf("got %d lost or refused packets, want 5", s.Lost())
	}
}

// rejects checks that a link refuses new connections in its direction only, and keeps open ones.
func rejects(t *testing.T, s *wire.Switch) {
	t.Helper()
	listeners := make([]net.Listener, 2)
	dial := func(from, to int) (conn net.Conn, err error) {
		inside(t, s, from, func() error {
			conn, err = net.DialTimeout("tcp4", listeners[to].Addr().String(), 10*time.Second)
			return nil
		})
		return conn, err
	}
	for i := range listeners {
		inside(t, s, i, func() (err error) {
			listeners[i], err = net.Listen("tcp4", net.JoinHostPort(s.Addr(i), "1001"))
			return err
		})
		defer func() { _ = listeners[i].Close() }()
	}
	open, err := dial(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	s.Set(0, 1, wire.Link{Reject: true})
	if conn, err := dial(0, 1); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial over a rejecting link: got %v, %v, want a refusal", conn, err)
	}
	back, err := dial(1, 0)
	if err != nil {
		t.Errorf("dial in the other direction: %v", err)
	} else {
		_ = back.Close()
	}
	peer, err := listeners[1].Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	if _, err := open.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	_ = peer.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := peer.Read(make([]byte, 1)); err != nil {
		t.Errorf("use an open connection over a rejecting link: %v", err)
	}
}

// inside calls f on a thread in a host's namespace.
func inside(t *testing.T, s *wire.Switch, host int, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.Enter(host)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func bind(t *testing.T, s *wire.Switch, i int) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	inside(t, s, i, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(s.Addr(i)), Port: 1000})
		return err
	})
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
