package ipmi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// consoleUp is the line that ipmitool prints when the console is open.
const consoleUp = "[SOL Session operational"

// console is an ipmitool process with an open console.
type console struct {
	in     io.WriteCloser
	out    *bufio.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc // kills it
	ended  chan struct{}      // closed when ipmitool has ended
	gone   chan struct{}      // closed when another one may be opened
	close  sync.Once
}

// OpenConsole opens the serial console (serial over LAN). It calls free when another one may be
// opened, unless it returns an error. The console is closed when ctx ends.
func (h *Host) OpenConsole(ctx context.Context, free func()) (io.ReadWriteCloser, error) {
	if _, err := h.mcInfo(ctx); err != nil { // unlike sol, mc info shows why a login fails
		return nil, err
	}
	con, err := h.console(ctx, free)
	if err != nil && strings.Contains(err.Error(), "already active") { // left open, or in use: take it
		_, _ = h.run(ctx, false, "sol", "deactivate")
		con, err = h.console(ctx, free)
	}
	if err != nil {
		return nil, err
	}
	return con, nil
}

// console starts ipmitool and waits until the console is open. It calls free after ipmitool ended.
func (h *Host) console(ctx context.Context, free func()) (*console, error) {
	a, leave, err := h.turn(ctx, false)
	if err != nil {
		return nil, err
	}
	defer leave(nil)
	path, err := exec.LookPath(h.cfg.Tool)
	if err != nil {
		return nil, NoTool(err)
	}
	host, err := h.address(ctx)
	if err != nil {
		return nil, err
	}
	// Without stdbuf, ipmitool does not print that the console is open until there is output.
	stdbuf, err := exec.LookPath("stdbuf")
	if err != nil {
		return nil, providers.Errorf(providers.Unsupported, "start ipmitool", "%w: install it (Debian: coreutils)", err)
	}
	opening := ctx
	// Close ends this context, after ipmitool had time to deactivate the console.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// Input at the start of a line must not be taken for a command to ipmitool. Therefore the
	// escape is a character that is hard to type.
	argv := []string{
		"-o0", path, "-I", "lanplus", "-H", host, "-p", h.cfg.Port, "-U", a.User, "-E", "-C", h.cfg.CipherSuite,
		"-e", "\x1f", "sol", "activate",
	}
	cmd := exec.CommandContext(ctx, stdbuf, argv...) //nolint:gosec // no shell
	cmd.Env = h.env(a)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	pr, pw := io.Pipe()
	cmd.Stdout, cmd.Stderr = drained{pw}, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	c := &console{
		in:     in,
		pipe:   pr,
		out:    bufio.NewReader(pr),
		cancel: cancel,
		ended:  make(chan struct{}),
		gone:   make(chan struct{}),
	}
	started := make(chan error)
	var exit error // of ipmitool, when it has ended
	go func() {
		runtime.LockOSThread() // ipmitool dies with the thread that starts it: keep the thread
		defer runtime.UnlockOSThread()
		endWithThread(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			exit = cmd.Wait()
		}
		_ = pw.Close()
		close(c.ended)
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, err
	}
	over := context.AfterFunc(opening, func() { _ = c.Close() })
	timer := time.AfterFunc(h.cfg.CommandTime, cancel)
	defer timer.Stop()
	var before strings.Builder
	for {
		line, err := c.out.ReadString('\n')
		if strings.Contains(line, consoleUp) {
			go func() {
				<-c.ended
				over()
				free()
				close(c.gone)
			}()
			return c, nil
		}
		before.WriteString(line)
		if err == nil {
			continue
		}
		late := ctx.Err() != nil
		close(c.gone) // it was never open, so the caller releases the BMC
		_ = c.Close()
		if opening.Err() == nil && late {
			return nil, providers.Errorf(providers.Timeout, "activate serial over LAN",
				"not open after %v", h.cfg.CommandTime)
		}
		// Close has blocked until it ended.
		out := before.String() + said.String()
		if exit == nil || strings.TrimSpace(out) == "" {
			exit = errors.New("ipmitool ended without a reason")
		}
		return nil, ToolError(opening, "activate serial over LAN", exit, out)
	}
}

// drained drops what nobody reads any more. ipmitool could not write to a closed pipe: it would end
// before it has deactivated the console.
type drained struct{ to *io.PipeWriter }

func (d drained) Write(b []byte) (int, error) {
	n, err := d.to.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(b), nil
	}
	return n, err
}

// Read blocks until there is output. It returns io.EOF once the console has ended.
func (c *console) Read(b []byte) (int, error) {
	n, err := c.out.Read(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

// Write sends input to the console.
func (c *console) Write(b []byte) (int, error) { return c.in.Write(b) }

// consoleEnd is the time that ipmitool has to close the console on the BMC.
const consoleEnd = 3 * time.Second

// Close ends the console, on the BMC too. After it another console can be opened.
func (c *console) Close() error {
	c.close.Do(func() {
		_ = c.in.Close() // makes ipmitool deactivate the console
		_ = c.pipe.Close()
		t := time.NewTimer(consoleEnd)
		defer t.Stop()
		select {
		case <-c.ended:
		case <-t.C:
		}
		c.cancel()
		<-c.ended
		<-c.gone
	})
	return nil
}
