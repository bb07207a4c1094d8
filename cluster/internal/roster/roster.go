// Package roster decides which peers are members of the cluster now (docs/security.md). Everything
// that believes a peer asks it: Raft's messages, calls between peers, forwarded identities, and the
// leader before it adds a peer. It must not change the membership.
//
// A peer counts by its certificate, and its place is that in the latest Raft configuration of this
// peer. That may lag behind. If it lacks a peer, this one asks the servers that it has, and
// believes each of them, since each of them could lead it. If none of them is left, it
// believes nobody: it must start with an empty data directory. A peer without a configuration
// believes each peer of its cluster, because it has nothing to lose yet; while it is a founder,
// only the other founders.
package roster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config is what a Roster knows of its peer.
type Config struct {
	Self string
	// Servers returns the latest Raft configuration; none if there is none yet.
	Servers func() []raft.Server
	// Founders returns the founders of the cluster that this peer has agreed to found; none if it
	// has not, or if the cluster has formed.
	Founders func() []string
	// Admission returns an operator's decision about a peer.
	Admission func(id string) (*internalv1.PeerAdmission, bool)
	// VotedFor reports whether this peer has voted for another one in a term.
	VotedFor func(id string, term uint64) bool
	// Vouch asks another peer.
	Vouch func(ctx context.Context, id string, req *internalv1.VouchRequest) (*internalv1.VouchResponse, error)
	// Refused counts the refusals.
	Refused func()
	Logger  *slog.Logger
}

// Roster decides which peers are members of the cluster now.
type Roster struct {
	cfg   Config
	life  context.Context
	ready atomic.Bool // Raft has started

	mu      sync.Mutex
	vouched map[string]*vouch // by the id and serial of a certificate
	logged  map[string]time.Time
}

// vouch is what other peers know about a peer that this peer's configuration lacks.
type vouch struct {
	asked time.Time
	done  chan struct{} // closed when the answers have arrived
	place place
}

// place is the place of a peer in the cluster.
type place int

const (
	stranger place = iota
	receiver       // in the configuration, without a vote; or this peer has no configuration
	voter
)

const (
	askTimeout  = 500 * time.Millisecond
	vouchFor    = 5 * time.Second        // how long an answer counts
	vouchAgain  = 250 * time.Millisecond // between two questions about a stranger
	vouchLimit  = 64                     // strangers that are remembered
	refusalPace = 30 * time.Second       // between two equal lines in the log
)

var errStarting = errors.New("this peer is starting")

// Denied returns an error if an operator has removed the peer and its certificate is not newer.
func (r *Roster) Denied(id string, cert *x509.Certificate) error {
	a, ok := r.cfg.Admission(id)
	if !ok || !a.GetDenied() {
		return nil
	}
	made := ""
	if cert != nil {
		issued := peertls.Issued(cert)
		if !slices.Contains(a.GetSerials(), cert.SerialNumber.Text(16)) && issued.After(a.GetIssuedBefore().AsTime()) {
			return nil
		}
		made = " (made at " + issued.UTC().Format(time.RFC3339) + ")"
	}
	return fmt.Errorf("peer %s was removed at %s, and this certificate is not newer%s: make a new one "+
		"(holdfast tls cert create), or admit the peer (holdfast peer admit %s)",
		id, a.GetAt().AsTime().UTC().Format(time.RFC3339), made, id)
}

// standing returns the place of a peer now, without asking others. cert is nil without TLS.
func (r *Roster) standing(id string, cert *x509.Certificate) (place, error) {
	if err := r.Denied(id, cert); err != nil {
		return stranger, err
	}
	servers := r.cfg.Servers()
	for _, s := range servers {
		switch {
		case string(s.ID) != id:
		case s.Suffrage == raft.Voter:
			return voter, nil
		default:
			return receiver, nil
		}
	}
	if len(servers) > 0 {
		return stranger, nil
	}
	if fs := r.cfg.Founders(); len(fs) > 0 && !slices.Contains(fs, id) {
		return stranger, fmt.Errorf("peer %s is no founder of this cluster", id)
	}
	return receiver, nil
}

func (r *Roster) noMember(id string) error {
	return fmt.Errorf("peer %s is no member of the cluster that this peer knows (%s)", id, r.members())
}

func (r *Roster) members() string {
	var ids []string
	for _, s := range r.cfg.Servers() {
		ids = append(ids, string(s.ID))
	}
	return strings.Join(ids, ", ")
}

// Member returns an error if a peer is not a member. If this peer's configuration lacks it, it
// waits for the answers of others.
func (r *Roster) Member(ctx context.Context, id string, cert *x509.Certificate) error {
	p, err := r.standing(id, cert)
	if err != nil || p != stranger {
		return err
	}
	v := r.ask(id, cert) //nolint:contextcheck // others wait for the answers too
	select {
	case <-v.done: // at the latest after askTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
	if v.place == stranger {
		return r.noMember(id)
	}
	return nil
}

// ask asks the other servers about a peer, and returns their answers, which may be pending. It
// asks rarely.
func (r *Roster) ask(id string, cert *x509.Certificate) *vouch {
	req := &internalv1.VouchRequest{PeerId: id}
	if cert != nil {
		req.Serial, req.Issued = cert.SerialNumber.Text(16), timestamppb.New(peertls.Issued(cert))
	}
	key, now := id+"\x00"+req.GetSerial(), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.vouched[key]; ok {
		keep := vouchFor
		select {
		case <-v.done:
			if v.place == stranger {
				keep = vouchAgain
			}
		default:
		}
		if now.Sub(v.asked) < keep {
			return v
		}
	}
	if r.vouched == nil || len(r.vouched) >= vouchLimit {
		r.vouched = map[string]*vouch{}
	}
	v := &vouch{asked: now, done: make(chan struct{})}
	r.vouched[key] = v
	go r.collect(v, req) // ends after askTimeout
	return v
}

// collect asks every server of the configuration.
func (r *Roster) collect(v *vouch, req *internalv1.VouchRequest) {
	defer close(v.done)
	ctx, cancel := context.WithTimeout(r.life, askTimeout)
	defer cancel()
	answers := make(chan place)
	asked := 0
	for _, s := range r.cfg.Servers() {
		id := string(s.ID)
		if id == r.cfg.Self || id == req.GetPeerId() {
			continue
		}
		asked++
		go func() { // ends with ctx
			p := stranger
			if a, err := r.cfg.Vouch(ctx, id, req); err == nil && a.GetVoter() {
				p = voter
			} else if err == nil && a.GetServer() {
				p = receiver
			}
			select {
			case answers <- p:
			case <-ctx.Done():
			}
		}()
	}
	for ; asked > 0 && v.place != voter; asked-- {
		select {
		case p := <-answers:
			v.place = max(v.place, p)
		case <-ctx.Done():
			return
		}
	}
}

// byOthers returns the place of a peer according to others, without waiting for their answers.
func (r *Roster) byOthers(id string, cert *x509.Certificate) place {
	v := r.ask(id, cert)
	select {
	case <-v.done:
		return v.place
	default:
		return stranger
	}
}

// Guard returns the roster's rules for Raft's messages.
func (r *Roster) Guard() transport.Guard {
	return transport.Guard{Connect: r.mayConnect, Message: r.mayTell}
}

// mayConnect implements transport.Guard.Connect.
func (r *Roster) mayConnect(from transport.Sender) error {
	if !r.ready.Load() {
		return errStarting
	}
	if from.Cert == nil {
		return nil // no TLS: the messages name their sender
	}
	p, err := r.standing(from.ID, from.Cert)
	if err == nil && p == stranger && r.byOthers(from.ID, from.Cert) == stranger {
		err = r.noMember(from.ID)
	}
	if err != nil {
		r.LogRefusal("connection", from.ID, err)
	}
	return err
}

// mayTell implements transport.Guard.Message.
func (r *Roster) mayTell(from transport.Sender, named string, message any) error {
	err := r.judge(from, named, message)
	if err != nil {
		r.LogRefusal(fmt.Sprintf("%T", message), named, err)
	}
	return err
}

// judge returns an error if a message of Raft must not be believed. Only a voter may lead. A peer
// without a vote may stand for election: its promotion may be an entry that this peer lacks and
// nobody else has any more, and only its log decides then (see Gate.judgeByLog). If this peer
// has voted for it, it may lead.
func (r *Roster) judge(from transport.Sender, named string, message any) error {
	if !r.ready.Load() {
		return errStarting
	}
	if from.Cert != nil && named != from.ID {
		return fmt.Errorf("the message is of peer %q, but the certificate of peer %s", named, from.ID)
	}
	p, err := r.standing(named, from.Cert)
	if err != nil || p == voter {
		return err
	}
	inside := p == receiver
	if inside && len(r.cfg.Servers()) == 0 {
		return nil // it has nothing yet, and does not vote unless it is a founder
	}
	if p = r.byOthers(named, from.Cert); p == voter {
		return nil
	}
	switch m := message.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		if inside {
			return nil
		}
	case *raft.AppendEntriesRequest:
		if inside && r.cfg.VotedFor(named, m.Term) {
			return nil
		}
	case *raft.InstallSnapshotRequest:
		if inside && r.cfg.VotedFor(named, m.Term) {
			return nil
		}
	}
	if inside || p == receiver {
		return fmt.Errorf("peer %s has no vote yet, so it cannot lead", named)
	}
	return r.noMember(named)
}

// LogRefusal logs that a peer was refused, at a bounded rate.
func (r *Roster) LogRefusal(what, id string, err error) {
	if errors.Is(err, errStarting) {
		return
	}
	r.cfg.Refused()
	now, key := time.Now(), id+"\x00"+err.Error()
	r.mu.Lock()
	last, known := r.logged[key]
	quiet := known && now.Sub(last) < refusalPace
	if !quiet {
		if r.logged == nil || len(r.logged) >= vouchLimit {
			r.logged = map[string]time.Time{}
		}
		r.logged[key] = now
	}
	r.mu.Unlock()
	if !quiet {
		r.cfg.Logger.Warn("peer refused", "peer", id, "message", what, "error", err)
	}
}

// New returns a Roster. It refuses everybody until Ready is called, when Raft has started. life is
// the context of questions to others.
func New(life context.Context, cfg Config) *Roster { return &Roster{cfg: cfg, life: life} }

// Ready makes the roster answer.
func (r *Roster) Ready() { r.ready.Store(true) }

// Vouch returns the place of a peer for another one, whose own configuration lacks it.
func (r *Roster) Vouch(req *internalv1.VouchRequest) (*internalv1.VouchResponse, error) {
	var cert *x509.Certificate
	if req.GetSerial() != "" {
		serial, ok := new(big.Int).SetString(req.GetSerial(), 16)
		if !ok {
			return nil, fmt.Errorf("serial %q: want hexadecimal digits", req.GetSerial())
		}
		cert = &x509.Certificate{SerialNumber: serial, NotBefore: req.GetIssued().AsTime()}
	}
	if len(r.cfg.Servers()) == 0 {
		return &internalv1.VouchResponse{}, nil
	}
	p, err := r.standing(req.GetPeerId(), cert)
	if err != nil {
		return &internalv1.VouchResponse{}, nil //nolint:nilerr // the answer is no
	}
	return &internalv1.VouchResponse{Server: p != stranger, Voter: p == voter}, nil
}
