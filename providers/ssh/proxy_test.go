package sshexec_test

import (
	"net"
	"sync"
	"testing"
)

// proxy is a connection to a server that can be cut and frozen.
type proxy struct {
	addr string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	dialed int
	frozen chan struct{} // no byte passes until it is closed; nil: not frozen
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", target)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns[c], p.conns[d] = true, true
			p.dialed++
			p.mu.Unlock()
			wg.Go(func() { p.copy(c, d) })
			wg.Go(func() { p.copy(d, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.thaw()
		p.cut()
		wg.Wait()
	})
	return p
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *proxy) dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialed
}
