package freeport

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

func TestClaims(t *testing.T) {
	taken := map[string]bool{}
	for range 20 {
		b, err := Claim(context.Background(), 12)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = b.Release() }()
		for range 12 {
			addr := b.Address("127.0.0.1")
			if taken[addr] {
				t.Fatalf("got %s twice", addr)
			}
			taken[addr] = true
		}
	}
}

func TestTakenPorts(t *testing.T) {
	b, err := Claim(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Release() }()
	first := b.next
	u, err := net.ListenPacket("udp", b.Address("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = u.Close() }()
	if err := free(context.Background(), first, 1); err == nil {
		t.Errorf("got port %d for gossip, which is in use for UDP", first)
	}
}

// A port is free when Claim returns, even if the process opens others meanwhile.
func TestClaimsWhileProcessesStart(t *testing.T) {
	stop := make(chan struct{})
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command(os.Args[0], "-test.run=^$").Run()
				}
			}
		})
	}
	defer starters.Wait()
	defer close(stop)
	for range 100 {
		b, err := Claim(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			l, err := net.Listen("tcp", b.Address("127.0.0.1"))
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadClaims(t *testing.T) {
	for _, n := range []int{-1, 0, Size + 1} {
		if _, err := Claim(context.Background(), n); err == nil {
			t.Errorf("claim %d ports: got no error", n)
		}
	}
}
