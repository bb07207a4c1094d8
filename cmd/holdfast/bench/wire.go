package bench

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

// callTimeout bounds one request. Agents of ours wait as long.
const callTimeout = 10 * time.Second

// target is an HTTP server under load.
type target struct {
	addr string
	tls  *tls.Config // nil: none
}

// wire is one connection that is kept. It asks one thing at a time. http.Client would do; it costs more than the servers it is to
// measure, on the processor that it shares with them.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	kept bool // it was answered on before, so that the server may have found it idle for too long
}

func (t target) dial(ctx context.Context) (*wire, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	if t.tls != nil {
		secured := tls.Client(conn, t.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("connect to %s: %w", t.addr, err)
		}
		conn = secured
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 1024)}, nil
}

// stale says whether a call failed for nothing but that the server had closed the connection while nobody used it: it is to be made again on a
// new one, as any client of HTTP does. A keepalive may come twice. A server that takes too long is not meant.
func (w *wire) stale(err error) bool {
	return w.kept && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
}

// call sends a whole request and reads the answer. After an error the connection is no good any more.
func (w *wire) call(request []byte, body []byte) (status int, answer []byte, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
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

func (w *wire) close() { _ = w.conn.Close() }

// wires are connections to one target that are lent out, as many as are wanted at once, up to a limit: on a machine that is too slow ever more of them
// would make it slower still.
type wires struct {
	target
	limit chan struct{} // has room for as many as may be lent at once; nil: any number

	mu   sync.Mutex
	idle []*wire
	all  int
}

// borrow gives a connection that was used before, or else a new one.
func (p *wires) borrow(ctx context.Context) (*wire, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return w, nil
	}
	p.all++
	p.mu.Unlock()
	w, err := p.dial(ctx)
	if err != nil {
		p.lost()
	}
	return w, err
}

func (p *wires) giveBack(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
}

// lost notes that a connection that was borrowed is gone.
func (p *wires) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
}

// open is how many connections there are.
func (p *wires) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// close ends the connections that nobody uses.
func (p *wires) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		w.close()
	}
	p.idle = nil
}

// post borrows a connection for one request.
func (p *wires) post(ctx context.Context, request []byte) (int, []byte, error) {
	if p.limit != nil {
		select {
		case p.limit <- struct{}{}:
			defer func() { <-p.limit }()
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
	for {
		w, err := p.borrow(ctx)
		if err != nil {
			return 0, nil, err
		}
		status, body, err := w.call(request, nil)
		if err == nil {
			p.giveBack(w)
			return status, body, nil
		}
		w.close()
		p.lost()
		if !w.stale(err) { // each one that is brings us nearer to a new one
			return 0, nil, err
		}
	}
}
