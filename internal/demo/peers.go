package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// readyTimeout bounds the time until the peers are ready.
const readyTimeout = 45 * time.Second

// diedError reports that peers are not running although they should. Their logs have the reason.
type diedError struct {
	error
	peers []*localcluster.Peer
}

func (e *diedError) Unwrap() error { return e.error }

// startPeers starts the cluster and waits until it serves.
func (s *story) startPeers(ctx context.Context, binary string) error {
	c, err := localcluster.New(ctx, localcluster.Config{Binary: binary, Dir: s.dir, Peers: 3,
		FakeEndpoint: s.hardware.url()})
	if err != nil {
		return err
	}
	s.cluster = c
	var ids []string
	for _, p := range c.Peers() {
		ids = append(ids, p.ID)
	}
	s.board.peers(ids...)
	s.board.say(plain, "starting %s, three processes on loopback, with TLS", strings.Join(ids, ", "))
	for _, p := range c.Peers() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		s.board.peer(id, up)
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	s.board.leader(leader.ID)
	s.board.say(good, "three peers are up, %s leads", leader.ID)
	if s.client, err = client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS()}); err != nil {
		return fmt.Errorf("connect to the peers: %w", err)
	}
	return nil
}

// ready waits until all peers serve, except the killed one.
func (s *story) ready(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	if dead := s.dead(); len(dead) > 0 {
		return ended(dead)
	}
	err := s.cluster.WaitReady(ctx)
	dead := s.dead()
	switch {
	case len(dead) > 0:
		return ended(dead)
	case err != nil: // all run, but not all are ready: any log may have the reason
		return &diedError{error: fmt.Errorf("start the peers: %w", err), peers: s.cluster.Peers()}
	}
	return nil
}

// ended returns the error of peers that have ended and were not killed.
func ended(dead []*localcluster.Peer) error {
	err := dead[0].Wait()
	if err == nil {
		err = fmt.Errorf("peer %s: exit status 0", dead[0].ID)
	}
	return &diedError{error: fmt.Errorf("a peer ended unexpectedly: %w", err), peers: dead}
}

// dead returns the peers that ended and were not killed by the demo.
func (s *story) dead() []*localcluster.Peer {
	var dead []*localcluster.Peer
	for _, p := range s.cluster.Peers() {
		if !p.Running() && !s.expected(p.ID) {
			dead = append(dead, p)
		}
	}
	return dead
}

// expectDead sets the peer that the demo is about to kill; "" means none.
func (s *story) expectDead(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.victim = id
}

func (s *story) expected(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.victim == id
}

// watchPeers polls the peers until ctx ends. It updates the leader on the board, and returns an
// error if a peer ends unexpectedly.
func (s *story) watchPeers(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if dead := s.dead(); len(dead) > 0 && ctx.Err() == nil {
			return ended(dead)
		}
		short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		leader, err := s.cluster.Leader(short)
		stop()
		switch {
		case err == nil:
			s.board.leader(leader.ID)
		case ctx.Err() == nil:
			s.board.leader("")
		}
	}
}

// revive starts the killed peer again with its data.
func (s *story) revive(ctx context.Context, id string) error {
	p := s.cluster.Peer(id)
	if p == nil {
		return nil
	}
	began := time.Now()
	s.board.peer(id, starting)
	if err := p.Start(ctx); err != nil {
		return err
	}
	s.expectDead("")
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.board.peer(id, up)
	s.board.say(good, "%s is back after %d ms with its data: three peers are up", id,
		time.Since(began).Milliseconds())
	return nil
}
