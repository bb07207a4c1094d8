package sshexec

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

type oneLogin struct{ login Login }

func (o oneLogin) Login(context.Context, string) (Login, error) { return o.login, nil }

// TestClosedConnectionsAreForgotten checks that the memory of a provider depends on its open
// connections, not on the hosts that it has visited.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	const hosts = 50
	address, login := serveSSH(t)
	p, err := New(Config{}, oneLogin{login}, NewPinnedInMemory(nil), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range hosts {
		l, fresh, err := p.link(t.Context(), target{host: fmt.Sprint("m-", i), address: address, ref: "key"}, nil)
		if err != nil || !fresh {
			t.Fatalf("connection %d: fresh %v, %v", i, fresh, err)
		}
		l.release()
	}
	kept := func() (links, open int) {
		p.pool.mu.Lock()
		defer p.pool.mu.Unlock()
		return len(p.pool.links), len(p.pool.open)
	}
	if links, open := kept(); links != hosts || open != hosts {
		t.Fatalf("got %d links and %d open connections, want %d of each", links, open, hosts)
	}
	p.pool.mu.Lock()
	for l := range p.pool.open {
		_ = l.client.Close() // as a vanishing host does
	}
	p.pool.mu.Unlock()
	p.watching.Wait()
	if links, open := kept(); links != 0 || open != 0 {
		t.Errorf("got %d links and %d open connections after all were closed, want 0", links, open)
	}
}

// TestRemoveKeepsTheNextLink checks that the end of an old connection does not remove its
// replacement.
func TestRemoveKeepsTheNextLink(t *testing.T) {
	to := target{host: "m-1"}
	old, next := &link{to: to}, &link{to: to}
	p := pool{links: map[target]*link{to: next}, open: map[*link]struct{}{old: {}, next: {}}}
	p.remove(old)
	if p.links[to] != next {
		t.Error("got the new connection removed with the old one")
	}
	p.remove(next)
	if len(p.links)+len(p.open) != 0 {
		t.Errorf("got %d links and %d connections, want 0", len(p.links), len(p.open))
	}
}

// TestRefusalsExpire checks that an expired refusal is dropped, even if its host is never visited
// again.
func TestRefusalsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := refusals{seen: map[target]refusal{}}
		for i := range 100 {
			r.count(target{host: fmt.Sprint("m-", i)}, Login{})
		}
		time.Sleep(refusedFor + time.Second) // sleep: fake clock
		r.count(target{host: "m-other"}, Login{})
		if got := len(r.seen); got != 1 {
			t.Errorf("got %d refusals after all but one have expired, want 1", got)
		}
	})
}

// serveSSH accepts any login, and refuses every channel, until the test ends.
func serveSSH(t *testing.T) (address string, login Login) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(k.Marshal(), signer.PublicKey().Marshal()) {
			return nil, fmt.Errorf("unknown key")
		}
		return new(ssh.Permissions), nil
	}}
	cfg.AddHostKey(signer)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				c, chans, reqs, err := ssh.NewServerConn(conn, cfg)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(reqs)
				for ch := range chans {
					_ = ch.Reject(ssh.Prohibited, "")
				}
				_ = c.Wait()
			}()
		}
	}()
	return lis.Addr().String(), Login{PrivateKey: pem.EncodeToMemory(block)}
}
