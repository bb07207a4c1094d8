package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// CallTimeout limits one request, as in our agents.
const CallTimeout = 10 * time.Second

// Target is an HTTP server under load.
type Target struct {
	Addr string
	TLS  *tls.Config // nil: none
}

// Wire is a persistent connection for one request at a time. It replaces http.Client, which costs
// more processor time than the servers that it would measure.
type Wire struct {
	conn net.Conn
	in   *bufio.Reader
	kept bool // it was used before, so the server may have closed it as idle
}

// Dial connects, within CallTimeout.
func (t Target) Dial(ctx context.Context) (*Wire, error) {
	ctx, stop := context.WithTimeout(ctx, CallTimeout)
	defer stop()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.Addr)
	if err != nil {
		return nil, err
	}
	if t.TLS != nil {
		secured := tls.Client(conn, t.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("connect to %s: %w", t.Addr, err)
		}
		conn = secured
	}
	return &Wire{conn: conn, in: bufio.NewReaderSize(conn, 1024)}, nil
}

// Stale reports whether a call failed because the server had closed the idle connection. The caller
// then retries on a new one, as HTTP clients do, so a keepalive may arrive twice. A timeout is not
// stale.
func (w *Wire) Stale(err error) bool {
	return w.kept && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err,
		syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
}

// Call sends a request and reads the response. After an error the connection is unusable.
func (w *Wire) Call(request []byte, body []byte) (status int, answer []byte, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(CallTimeout)); err != nil {
		return 0, nil, err
	}
	if _, err := w.conn.Write(request); err != nil {
		return 0, nil, err
	}
	res, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer = body[:0]
	for {
		if len(answer) == cap(answer) {
			answer = append(answer, 0)[:len(answer)]
		}
		n, err := res.Body.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		if err == io.EOF {
			w.kept = true
			return res.StatusCode, answer, nil
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

// Addr is the address of the server.
func (w *Wire) Addr() string { return w.conn.RemoteAddr().String() }

// Close ends the connection.
func (w *Wire) Close() { _ = w.conn.Close() }

// Wires is an unbounded pool of connections to one target.
type Wires struct {
	Target
	mu   sync.Mutex
	idle []*Wire
	all  int
}

// borrow returns an idle connection, or a new one.
func (p *Wires) borrow(ctx context.Context) (*Wire, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return w, nil
	}
	p.all++
	p.mu.Unlock()
	w, err := p.Dial(ctx)
	if err != nil {
		p.lost()
	}
	return w, err
}

func (p *Wires) giveBack(w *Wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
}

// lost removes a borrowed connection.
func (p *Wires) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
}

// Open returns the number of connections.
func (p *Wires) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// Close closes idle connections.
func (p *Wires) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		w.Close()
	}
	p.idle = nil
}

// Post makes one request on a connection of the pool.
func (p *Wires) Post(ctx context.Context, request []byte) (int, []byte, error) {
	for {
		w, err := p.borrow(ctx)
		if err != nil {
			return 0, nil, err
		}
		status, body, err := w.Call(request, nil)
		if err == nil {
			p.giveBack(w)
			return status, body, nil
		}
		w.Close()
		p.lost()
		if !w.Stale(err) { // each stale connection is removed, so this ends
			return 0, nil, err
		}
	}
}
