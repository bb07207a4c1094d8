package cluster

import (
	"context"
	"crypto/x509"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerconn"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// asker asks other peers.
type asker struct {
	self  string
	conns *peerconn.Conns
	// term returns the term of this peer, or 0 if it may not vote: it has forgotten its votes.
	term  func() uint64
	own   func() *internalv1.StatsResponse        // the statistics of this peer
	known func(id string) *internalv1.Marks       // what this peer remembers of another one
	saw   func(id string, cert *x509.Certificate) // is called with each certificate
}

// stats returns the statistics that a peer reports; this peer may be one.
func (a *asker) stats(ctx context.Context, id string) (*internalv1.StatsResponse, error) {
	st, _, err := a.statsCert(ctx, id)
	return st, err
}

// statsCert also returns the certificate of the peer; nil without TLS and for this peer.
func (a *asker) statsCert(
	ctx context.Context, id string,
) (*internalv1.StatsResponse, *x509.Certificate, error) {
	if id == a.self {
		return a.own(), nil, nil
	}
	c, err := a.conns.Peer(id)
	if err != nil {
		return nil, nil, err
	}
	var at peer.Peer
	st, err := c.Stats(ctx, &internalv1.StatsRequest{}, grpc.Peer(&at))
	if err != nil {
		return nil, nil, err
	}
	info, ok := at.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return st, nil, nil
	}
	cert := info.State.PeerCertificates[0]
	a.saw(id, cert)
	return st, cert, nil
}

// admit asks a peer whether it would found a cluster, or allows it to vote.
func (a *asker) admit(ctx context.Context, id string, req *internalv1.AdmitRequest) error {
	c, err := a.conns.Peer(id)
	if err != nil {
		return err
	}
	_, err = c.Admit(ctx, req)
	return err
}

// standDown makes a peer end the leader tasks of terms before one.
func (a *asker) standDown(ctx context.Context, id string, term uint64) error {
	c, err := a.conns.Peer(id)
	if err != nil {
		return err
	}
	_, err = c.StandDown(ctx, &internalv1.StandDownRequest{Term: term})
	return err
}

// lastIndex returns the index of a peer's last entry.
func (a *asker) lastIndex(ctx context.Context, id string) (uint64, error) {
	st, err := a.stats(ctx, id)
	return st.GetLastIndex(), err
}

// confirm returns nil if a peer confirms that it still has the term.
func (a *asker) confirm(ctx context.Context, id string, term uint64) error {
	c, err := a.conns.Peer(id)
	if err != nil {
		return err
	}
	r, err := c.Confirm(ctx, &internalv1.ConfirmRequest{Term: term, Known: a.known(id)})
	if err != nil {
		return err
	}
	if r.GetPeerId() != id || r.GetTerm() != term {
		return fmt.Errorf("peer %s has term %d", r.GetPeerId(), r.GetTerm())
	}
	return nil
}

// readIndex asks the leader for a read index.
func (a *asker) readIndex(ctx context.Context, id string) (uint64, error) {
	c, err := a.conns.Peer(id)
	if err != nil {
		return 0, err
	}
	req := &internalv1.ReadIndexRequest{PeerId: a.self, Term: a.term()}
	r, err := c.ReadIndex(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("get a read index from leader %s: %w", id, err)
	}
	return r.GetIndex(), nil
}

// askRenewal asks the leader for another certificate of this peer.
func (n *Peer) askRenewal(ctx context.Context, csr []byte) ([]byte, error) {
	leader, self, ok := n.Leader()
	switch {
	case !ok:
		return nil, outcome.ErrNoLeader
	case self:
		return n.members.Renew(ctx, leader, n.cfg.TLS.Leaf(), csr)
	}
	c, err := n.conns.Peer(leader)
	if err != nil {
		return nil, err
	}
	r, err := c.RenewCertificate(ctx, &internalv1.RenewCertificateRequest{PeerId: n.cfg.PeerID, Csr: csr})
	return r.GetChain(), err
}

func (a *asker) leave(ctx context.Context, leader string) error {
	c, err := a.conns.Peer(leader)
	if err != nil {
		return err
	}
	_, err = c.Leave(ctx, &internalv1.LeaveRequest{PeerId: a.self})
	return err
}

// keepMarks compares the marks of this directory with what the other peers remember of it.
func (n *Peer) keepMarks(ctx context.Context) error {
	return n.marks.Run(ctx, marks.Others{
		Changed: n.gossip.Changed,
		Voters:  func() []string { others, _ := n.raft.voters(); return others },
		Peers: func() (ids []string) {
			for _, s := range n.raft.servers() {
				if id := string(s.ID); id != n.cfg.PeerID {
					ids = append(ids, id)
				}
			}
			return ids
		},
		Meet: func(ctx context.Context, id string, g *internalv1.Greeting) (*internalv1.Greeting, error) {
			c, err := n.conns.Peer(id)
			if err != nil {
				return nil, err
			}
			r, err := c.Meet(ctx, &internalv1.MeetRequest{Greeting: g})
			return r.GetGreeting(), err
		},
	})
}
