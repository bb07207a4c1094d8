package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// redis speaks RESP 2 to a Redis server: commands in turn on connections that are kept. It is as much of a client as the gateway needs, for
// two reasons: a whole one would be linked into every peer for the sake of a benchmark, and it costs more processor time than this, which
// would flatter us.
type redis struct {
	addr string

	mu   sync.Mutex
	idle []*redisConn
}

type redisConn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

// errNil is Redis' word for nothing: a key that is not there, or a SET NX of one that is.
var errNil = errors.New("redis: nil")

// do sends one command and gives its answer. The caller hands the connection back when it has come, error or not.
func (c *redisConn) do(args ...string) (string, error) {
	c.out = append(strconv.AppendInt(append(c.out[:0], '*'), int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(a)), 10), "\r\n"...)
		c.out = append(append(c.out, a...), "\r\n"...)
	}
	if _, err := c.Write(c.out); err != nil {
		return "", err
	}
	return readReply(c.in)
}

// readReply reads one answer; lists are none of those that are needed.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 {
		return "", fmt.Errorf("redis: an answer of %d bytes", len(line))
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", fmt.Errorf("redis: %s", text)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", errors.Join(errNil, err)
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(in, b)
		return string(b[:n]), err
	}
	return "", fmt.Errorf("redis: an answer of kind %q", kind)
}

// with lends a connection to what is done with it. One that has failed is not used again.
func (r *redis) with(ctx context.Context, do func(context.Context, *redisConn) error) error {
	r.mu.Lock()
	var c *redisConn
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	}
	r.mu.Unlock()
	if c == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.addr)
		if err != nil {
			return err
		}
		c = &redisConn{Conn: conn, in: bufio.NewReader(conn)}
	}
	if err := do(ctx, c); err != nil {
		_ = c.Close()
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, c)
	return nil
}
