package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// listen opens one listener for each peer for a process, with the tap behind it. They stay
// open until the driver ends.
func (h *holder) listen() error {
	for _, to := range h.fleet.w.target.URLs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen for %s: %w", h.name, err)
		}
		proxy, err := h.proxyTo(to)
		if err != nil {
			return err
		}
		// The peer did not answer, so this proxy does not either.
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
		}
		srv := &http.Server{Handler: proxy, ReadHeaderTimeout: 5 * time.Second}
		h.proxies = append(h.proxies, "http://"+l.Addr().String())
		h.fleet.servers = append(h.fleet.servers, srv)
		h.fleet.running.Go(func() { _ = srv.Serve(l) })
	}
	return nil
}

// process starts a real holdfast-agent. Its id is the one that it created at its first
// start.
func (f *fleet) process(h *holder) (incarnation, error) {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return incarnation{}, err
	}
	token := filepath.Join(h.dir, "token")
	if err := os.WriteFile(token, []byte(f.tokens["agent"]), 0o600); err != nil {
		return incarnation{}, err
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return incarnation{}, err
	}
	cmd := exec.Command(f.w.cfg.Agent, "run", "--server", strings.Join(h.proxies, ","), "--token-file", token, "--pool",
		f.names().pool,
		"--state-dir", h.dir, "--hostname", h.name, "--private-ip", "10.0.0.1", "--interval", heartbeatEvery.String())
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, tied()
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel kills the process when the thread that started it ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
		}
		ended <- errors.Join(err, log.Close())
	}()
	if err := <-started; err != nil {
		return incarnation{}, fmt.Errorf("start %s: %w", f.w.cfg.Agent, err)
	}
	return incarnation{
		run: func(ctx context.Context) error {
			select {
			case err := <-ended:
				return fmt.Errorf("it has ended: %w", err)
			case <-ctx.Done():
				_ = cmd.Process.Kill() // it has ended already, or dies
				if err := <-ended; err == nil {
					return errors.New("it has ended before it was killed")
				}
				return nil
			}
		},
		freeze: func() func() {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			return func() { _ = cmd.Process.Signal(syscall.SIGCONT) }
		},
	}, nil
}
