package fake

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// consolePoll is the interval at which an open console polls for output.
const consolePoll = 20 * time.Millisecond

// OpenConsole opens the serial console: first its recent output, then new output. It ends with ctx.
func (p *Provider) OpenConsole(ctx context.Context, m providers.Machine) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &console{p: p, m: m, ctx: ctx, cancel: cancel}
	if err := c.fetch(); err != nil {
		cancel()
		return nil, err
	}
	return c, nil
}

// console polls for output: a pending call would need a goroutine in the fleet.
type console struct {
	p      *Provider
	m      providers.Machine
	ctx    context.Context // of the console, which outlives the call that opened it
	cancel context.CancelFunc

	mu     sync.Mutex // of readers
	unread []byte
	offset int64
}

func (c *console) fetch() error {
	a, err := get[consoleAnswer](c.ctx, c.p, opConsole, c.m, consoleArgs{Offset: c.offset})
	if err == nil {
		c.unread, c.offset = a.Data, a.Next
	}
	return err
}

// Read blocks until there is output. It returns io.EOF after the console was closed or ctx ended.
func (c *console) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tick := time.NewTicker(consolePoll)
	defer tick.Stop()
	for len(c.unread) == 0 && len(b) > 0 {
		select {
		case <-c.ctx.Done():
			return 0, io.EOF
		case <-tick.C:
		}
		if err := c.fetch(); err != nil {
			if c.ctx.Err() != nil {
				return 0, io.EOF
			}
			return 0, err
		}
	}
	n := copy(b, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Write sends input to the console.
func (c *console) Write(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, errors.New("write to console: console is closed")
	}
	if err := c.p.call(c.ctx, opConsoleWrite, providers.Op{}, c.m, consoleArgs{Data: b}, nil); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends the console and its pending Read.
func (c *console) Close() error {
	c.cancel()
	return nil
}
