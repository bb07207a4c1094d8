package freeport

import (
	"context"
	"net"
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
				t.Fatalf("%s was given out twice", addr)
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
		t.Errorf("port %d is free for gossip: a socket has it for UDP", first)
	}
}

func TestBadClaims(t *testing.T) {
	for _, n := range []int{-1, 0, Size + 1} {
		if _, err := Claim(context.Background(), n); err == nil {
			t.Errorf("claim %d ports: got no error", n)
		}
	}
}
