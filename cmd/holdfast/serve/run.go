package serve

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/client/sdnotify"
	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor"
	"github.com/holdfast-metal/holdfast/executor/bootstrap"
	"github.com/holdfast-metal/holdfast/executor/waves"
	"github.com/holdfast-metal/holdfast/internal/heap"
)

// serve runs a peer until ctx ends.
func serve(ctx context.Context, o *opened, m *machines, t *executor.Tasks, e *edge, last *lastResort) error {
	p := &peer{cfg: o.cfg, log: o.log, node: o.node, exec: t.Runs}
	o.log.Info("peer is up", "version", o.version, "grpc", o.grpc.Addr().String(), "http", o.http.Addr().String(),
		"raft", o.node.RaftAddr(), "gossip", o.node.GossipAddr(), "dashboard", dashboardURL(o.tls != nil, o.http.Addr()))
	g, gctx := errgroup.WithContext(ctx)
	web, stopWeb := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWeb()
	g.Go(func() error {
		if err := e.api.Serve(e.apiLn); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve gRPC on %s: %w", o.grpc.Addr(), err)
		}
		return nil
	})
	for _, part := range []func(context.Context) error{
		e.past.Run, heap.Run, e.gate.Denials().Run, e.gateway.Run, e.files.Run, o.keys.Run, m.hardware.Serve,
		func(ctx context.Context) error { return serveHTTP(ctx, e.site, e.siteLn) },
		func(ctx context.Context) error { return o.cfg.netbootConfig.serve(ctx, e.boot, e.bootLn) },
		func(ctx context.Context) error { return o.cfg.netbootConfig.serveFirmware(ctx, e.srv.Local(), o.log) },
	} {
		g.Go(func() error { return part(web) })
	}
	g.Go(func() error {
		<-gctx.Done()
		e.srv.Drain() // watchers go on with another peer while this one hands over
		return nil
	})
	g.Go(func() error {
		return sdnotify.Pulse{Notifier: sdnotify.New(os.Getenv, os.Getpid()), Log: o.log, Last: "handing over",
			Line: func() string { return p.line(o.state) }}.Run(gctx)
	})
	g.Go(func() error {
		// The API stays up while the peer hands over its leadership: calls in the meantime are
		// forwarded.
		leading, stop := context.WithCancelCause(context.WithoutCancel(gctx))
		defer stop(nil)
		defer context.AfterFunc(gctx, func() {
			if ctx.Err() != nil {
				p.beforeStop(leading)
			}
			stop(context.Cause(gctx))
		})()
		err := o.node.Run(leading, workOf(o, m, t, e, p))
		last.after(err)
		stopWeb()
		if ctx.Err() == nil {
			e.api.Stop() // not gracefully, because the peer cannot continue
			return err
		}
		stopGracefully(e.api)
		return err
	})
	return g.Wait()
}

// workOf returns the work of the peer in its cluster.
func workOf(o *opened, m *machines, t *executor.Tasks, e *edge, p *peer) cluster.Work {
	tasks := append([]leader.Task{m.hardware, waves.New(o.node, o.state, e.srv, o.log)}, e.vault.tasks...)
	if !o.cfg.Insecure {
		tasks = append(tasks, bootstrap.New(o.node, os.Stdout))
	}
	return cluster.Work{Tasks: t.All(tasks...), BeforeHandover: p.beforeHandover, Leases: t.Leases.Load,
		BMCCalls: m.hardware.BMCCalls}
}
