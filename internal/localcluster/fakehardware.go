package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// FakeHardware is a fleet of fake machines in a process of its own, which outlives peers. It lists
// all effects at Endpoint + "/effects" (docs/operating.md).
type FakeHardware struct {
	Endpoint string // "http://127.0.0.1:port", for Config.FakeEndpoint
	LogFile  string

	ports   *freeport.Block
	program *Program // nil if it could not be started
}

// StartFakeHardware runs `holdfast fake-hardware` on a free port, with additional arguments, and
// blocks until it answers. Its log is <dir>/fake-hardware.log.
func StartFakeHardware(ctx context.Context, binary, dir string, args ...string) (*FakeHardware, error) {
	return StartFakeHardwareOn(ctx, localhost, binary, dir, args...)
}

// StartFakeHardwareOn is StartFakeHardware with the address to listen on.
func StartFakeHardwareOn(ctx context.Context, host, binary, dir string, args ...string) (*FakeHardware, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start fake hardware: %w", err)
	}
	ports, err := freeport.Claim(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("start fake hardware: %w", err)
	}
	addr := ports.Address(host)
	f := &FakeHardware{Endpoint: "http://" + addr, LogFile: filepath.Join(dir, "fake-hardware.log"), ports: ports}
	f.program, err = StartProgram(binary, append([]string{"fake-hardware", "--addr", addr}, args...), nil, f.LogFile)
	if err == nil {
		err = f.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start fake hardware: %w", err), f.end())
	}
	return f, nil
}

// wait blocks until the process answers. It returns an error if the process ends first.
func (f *FakeHardware) wait(ctx context.Context) error {
	client := &http.Client{Timeout: pollTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Endpoint+"/healthz", nil)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			return res.Body.Close()
		}
		select {
		case <-tick.C:
		case <-f.program.Done():
			return errors.New(f.State())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// State returns, for error messages, whether the process runs, or its exit status and last output.
func (f *FakeHardware) State() string {
	proc := f.program.proc
	if proc.running() {
		return "it is running"
	}
	return fmt.Sprintf("it has ended (%v); the end of its log:\n%s", proc.cmd.ProcessState, f.program.LogTail(2000))
}

// Close ends the process, and its list of effects is lost. It returns an error if the process had
// failed or was killed before.
func (f *FakeHardware) Close() error {
	var err error
	if proc := f.program.proc; !proc.running() && !proc.cmd.ProcessState.Success() {
		err = fmt.Errorf("fake hardware had ended before it was closed: %s", f.State())
	}
	return errors.Join(err, f.end())
}

func (f *FakeHardware) end() error {
	var err error
	if f.program != nil {
		err = f.program.Kill()
	}
	return errors.Join(err, f.ports.Release())
}
