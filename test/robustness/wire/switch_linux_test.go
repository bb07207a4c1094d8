package wire_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/private"
	"github.com/holdfast-metal/holdfast/test/robustness/wire"
)

// Each direction of each link can be cut alone, for open connections too, and what a host has opened itself is no exception.
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
	// trip sends a packet and waits until it has come, or is lost for certain.
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
				t.Fatalf("a packet from %d to %d has neither come nor was it lost", from, to)
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
		{"one way", wire.Link{Cut: true}, wire.Link{}, false, true},
		{"the other way", wire.Link{}, wire.Link{Cut: true}, true, false},
		{"isolated", wire.Link{Cut: true}, wire.Link{Loss: 1}, false, false},
		{"healed", wire.Link{}, wire.Link{Delay: 100 * time.Millisecond}, true, true},
	} {
		s.Set(0, 1, tc.there)
		s.Set(1, 0, tc.back)
		_, there := trip(0, 1)
		took, back := trip(1, 0)
		if there != tc.wantT || back != tc.wantB {
			t.Errorf("%s: arrived there %v, back %v; want %v, %v", tc.name, there, back, tc.wantT, tc.wantB)
		}
		if back && took < tc.back.Delay {
			t.Errorf("%s: a packet took %s, want at least %s", tc.name, took, tc.back.Delay)
		}
	}
	if s.Lost() != 4 {
		t.Errorf("%d packets were lost, want 4", s.Lost())
	}
}

func bind(t *testing.T, s *wire.Switch, i int) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.Enter(i)
		if err == nil {
			conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(s.Addr(i)), Port: 1000})
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
