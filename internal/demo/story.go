package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// story is one demo.
type story struct {
	options
	machines []*holdfastv1.Machine
	progress *progress
	hardware *hardware
	peers    *peers // nil before they serve
}

// run runs the demo and removes its files. With --json, out receives the report only, and errs the
// progress.
func run(ctx context.Context, o options, out, errs io.Writer) (err error) {
	dir, err := makeDir(o.dir)
	if err != nil {
		return err
	}
	kept := o.keepDir || o.dir != ""
	if !kept {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	lines := out
	if o.json {
		lines = errs
	}
	playing, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	s := &story{options: o, machines: inventory(o.machines), progress: newProgress(lines, o.machines, broken)}
	if s.hardware, err = newHardware(ctx, "127.0.0.1:0", fleetConfig(s.machines)); err != nil {
		return err
	}
	// The hardware outlives the peers, whatever ends first.
	powered, powerDown := context.WithCancel(context.WithoutCancel(ctx))
	hw, powered := errgroup.WithContext(powered)
	hw.Go(func() error { return s.hardware.Run(powered) })
	defer func() { //nolint:contextcheck // peers are stopped after ctx has ended
		if s.peers != nil {
			err = errors.Join(err, s.peers.stop())
		}
		powerDown()
		err = errors.Join(err, hw.Wait())
	}()

	r, err := s.play(playing, dir)
	switch {
	case err != nil && ctx.Err() != nil: // the error is a consequence
		return errors.New("run the demo: interrupted")
	case err != nil:
		return cmp.Or(context.Cause(playing), err)
	case kept:
		r.Dir = dir
	}
	_, err = io.WriteString(lines, r.summary())
	if err == nil && o.json {
		err = r.write(out)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if !o.exit {
		s.stay(playing, lines)
	}
	return r.err()
}

// play runs the demo up to the report.
func (s *story) play(ctx context.Context, dir string) (r *report, err error) {
	s.progress.say("starting n1, n2, n3, three processes on loopback, with TLS")
	if s.peers, err = startPeers(ctx, dir, s.hardware.url()); err != nil {
		return nil, err
	}
	leader, err := s.peers.Leader(ctx)
	if err != nil {
		return nil, err
	}
	s.progress.say("three peers are up, %s leads", leader.ID)
	f, err := s.repave(ctx)
	if err != nil {
		return nil, err
	}
	if !s.exit && f.killed != "" {
		if err := s.peers.revive(ctx); err != nil {
			return nil, err
		}
		s.progress.say("%s is back with its data: three peers are up", f.killed)
	}
	runs, err := s.record(ctx)
	if err != nil {
		return nil, err
	}
	return newReport(len(s.machines), runs, s.hardware.fleet.Effects("", "", 0), f, time.Since(s.progress.began)), nil
}

// repave runs the plan on all machines and kills the leader in the middle. After the timeout it
// returns without an error, and the report lists the runs that have not ended.
func (s *story) repave(ctx context.Context) (f failover, err error) {
	g, ctx := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(ctx)
	g.Go(func() error { return s.follow(watching) })
	g.Go(func() error { return s.peers.watch(watching) })
	g.Go(func() error { return s.begin(ctx) })
	g.Go(func() (err error) {
		defer stop()
		limited, done := context.WithTimeout(ctx, s.timeout)
		defer done()
		select {
		case <-s.progress.half:
			if f, err = s.killLeader(ctx); err != nil {
				return err
			}
		case <-limited.Done():
		}
		select {
		case <-s.progress.finished:
			s.progress.say("all runs have ended")
		case <-limited.Done():
			if ctx.Err() == nil {
				s.progress.say("time is up after %s: not all runs have ended", s.timeout)
			}
		}
		return ctx.Err()
	})
	err = g.Wait()
	return f, err
}

// invitation explains how to use the cluster.
const invitation = `
  Three peers are up, and stay up until Ctrl-C:

    the dashboard, on each of them:  {{(index .Peers 0).URL "/ui/"}}
    sign in with the token           {{.Token}}
    (the browser warns: the certificate is of the demo's own CA, {{.Files.CA}})
{{range .Peers}}
    {{.ID}}  gRPC {{.GRPCAddr}}  {{.URL "/metrics"}}
{{- end}}
    effects counted by the fake hardware: {{.Hardware}}/effects

  In another terminal:

    alias holdfast={{.Binary}}
    export HOLDFAST_ADDR={{.Addrs}}
    export HOLDFAST_CA={{.Files.CA}} HOLDFAST_CERT={{.Files.AdminCert}} HOLDFAST_KEY={{.Files.AdminKey}}
    holdfast cluster status
    holdfast machine list
    holdfast run list
    holdfast run start {{.Machine}} --type REBOOT --wait
    curl -s --cacert $HOLDFAST_CA --cert $HOLDFAST_CERT --key $HOLDFAST_KEY {{(index .Peers 0).URL "/readyz"}}
`

// stay keeps the cluster up until ctx ends, and prints how to use it.
func (s *story) stay(ctx context.Context, w io.Writer) {
	token, err := s.peers.client.Access().CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "demo",
		Role: holdfastv1.Role_ADMIN, TtlSeconds: 24 * 3600, Comment: "for the dashboard of the demo"})
	if err == nil {
		err = template.Must(template.New("").Parse(invitation)).Execute(w, map[string]any{
			"Token": token.GetSecret(), "Peers": s.peers.Peers(), "Files": s.peers.Files(), "Hardware": s.hardware.url(),
			"Binary": s.peers.binary, "Addrs": strings.Join(s.peers.Addrs(), ","), "Machine": s.machines[0].GetMachineId(),
		})
	}
	if err == nil {
		err = s.peers.watch(ctx)
	}
	if err != nil { // of a peer that was killed by hand, for example
		s.progress.say("%v", err)
	}
	<-ctx.Done()
	s.progress.say("stopping")
}

// makeDir makes the directory of the peers: the named one, or a temporary one for "".
func makeDir(name string) (dir string, err error) {
	if name == "" {
		dir, err = os.MkdirTemp("", "holdfast-demo-")
	} else if dir, err = filepath.Abs(name); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	entries, unread := os.ReadDir(dir)
	switch err := cmp.Or(err, unread); {
	case err != nil:
		return "", fmt.Errorf("make a directory for the peers: %w", err)
	case len(entries) > 0:
		return "", fmt.Errorf("use --dir %s: it is not empty: name an empty or a new directory", dir)
	}
	return dir, nil
}
