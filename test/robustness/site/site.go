// Package site is the real hardware that peers use in addition to fake hardware: BMCs that
// speak Redfish, each a process that misbehaves on request, and a host with a real OpenSSH
// server.
//
// It manages those processes and the peers' configuration for them, and does not depend on
// their use.
package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/test/bmclab/control"
	"github.com/holdfast-metal/holdfast/test/bmclab/proc"
	"github.com/holdfast-metal/holdfast/test/sshd"
)

// The account of every BMC, and the system of each.
const (
	User     = "admin"
	Password = "secret"
	System   = "1"
)

// The providers in the peers' configuration.
const (
	BMCs  = "bmcs"
	Hosts = "hosts"
)

// Config configures a site.
type Config struct {
	BMCServer string // the executable of test/bmclab/bmcserver; see Build
	Dir       string // of logs, sockets and the host's files; short, because of the sockets
	Host      string // address of all listeners; default 127.0.0.1
	BMCs      int    // number of BMCs; 0: none
	SSH       bool   // with a host
	PowerTime time.Duration
}

// The times are short, so that faults are repaired within seconds.
const (
	powerTime = 300 * time.Millisecond // from a press until its effect
	bootTime  = 300 * time.Millisecond
	resetTime = 1500 * time.Millisecond
	// Idle is the time after which an unused session is ended.
	Idle = 3 * time.Second
)

// Site is BMCs and a host.
type Site struct {
	BMCs []*BMC
	SSH  *sshd.Server // nil: none
	// Without describes what is missing and why; "" if nothing is.
	Without string

	cfg     Config
	ports   *freeport.Block
	starter *proc.Starter
}

// BMC is one BMC. Its control interface returns its observations, and makes it misbehave.
type BMC struct {
	*control.Client
	Endpoint string // bmc_endpoint of a machine
}

// BMCServer is the package of the BMCs' executable.
const BMCServer = "test/bmclab/bmcserver"

// Start starts everything, and blocks until it answers. The site must be closed.
func Start(ctx context.Context, cfg Config) (s *Site, err error) {
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.PowerTime == 0 {
		cfg.PowerTime = powerTime
	}
	s = &Site{cfg: cfg, starter: proc.NewStarter()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start the site: %w", err), s.Close())
		}
	}()
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return s, err
	}
	if s.ports, err = freeport.Claim(ctx, cfg.BMCs+1); err != nil {
		return s, err
	}
	for i := range cfg.BMCs {
		b, err := s.bmc(ctx, i)
		if err != nil {
			return s, err
		}
		s.BMCs = append(s.BMCs, b)
	}
	if !cfg.SSH {
		return s, nil
	}
	if s.Without = sshd.Missing(); s.Without != "" {
		return s, nil
	}
	s.SSH, err = sshd.Start(ctx, filepath.Join(cfg.Dir, "host"), s.ports.Address(cfg.Host))
	return s, err
}

// bmc starts a BMC and blocks until it answers.
func (s *Site) bmc(ctx context.Context, i int) (*BMC, error) {
	addr, at := s.ports.Address(s.cfg.Host), filepath.Join(s.cfg.Dir, "control"+strconv.Itoa(i))
	p, err := s.starter.Start(filepath.Join(s.cfg.Dir, "bmc"+strconv.Itoa(i)+".log"), s.cfg.BMCServer,
		"redfish", "-addr", addr, "-control", at, "-system", System,
		"-power-time", s.cfg.PowerTime.String(), "-boot-time", bootTime.String(), "-reset-time", resetTime.String())
	if err != nil {
		return nil, err
	}
	b := &BMC{Client: control.Dial(at), Endpoint: "http://" + addr}
	for {
		_, err := b.Seen(ctx)
		if err == nil {
			return b, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.Done():
			return nil, fmt.Errorf("BMC %d has ended: its log is in %s", i, s.cfg.Dir)
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// Close stops everything.
func (s *Site) Close() error {
	if s.SSH != nil {
		s.SSH.Close()
	}
	s.starter.Close()
	if s.ports == nil {
		return nil
	}
	return s.ports.Release()
}

// Providers returns the peers' configuration for the site: YAML in "providers:".
func (s *Site) Providers() string {
	text := ""
	if len(s.BMCs) > 0 {
		// A press takes a while to have an effect, and a restarting BMC is away for a
		// while: settle is longer than both.
		text += fmt.Sprintf("  %s: {kind: cloudbmc, protocol: redfish, allow_http: true, settle: %s, "+
			"open_time: 1s, request_time: 2s, timeout: 6s, idle: %s}\n",
			BMCs, max(2*time.Second, s.cfg.PowerTime+time.Second), Idle)
	}
	if s.SSH != nil {
		text += fmt.Sprintf("  %s: {kind: ssh, host_keys: pinned, keepalive: 1s, dead_after: 3s, state_dir: %q}\n",
			Hosts, filepath.Join(s.cfg.Dir, "state"))
	}
	return text
}

// Starts returns the file on the host into which commands write a line when they begin.
func (s *Site) Starts() string { return filepath.Join(s.cfg.Dir, "starts") }
