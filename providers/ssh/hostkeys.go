package sshexec

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// HostKeys keeps the keys that hosts are known by, from the inventory, an installer's report, or
// first sight. A host is a machine's id, or "jump/" and the address of a jump host. Keys are as in
// authorized_keys: "ssh-ed25519 AAAA…".
type HostKeys interface {
	// Get returns the pinned keys of a host; none is no error.
	Get(ctx context.Context, host string) ([]string, error)
	// Pin records the first key of a host. It is an error when the host has another one by then.
	Pin(ctx context.Context, host, key string) error
}

// jumpKeys has the keys of jump hosts that the configuration names: these go before what was
// pinned.
type jumpKeys struct {
	HostKeys
	jumps []Jump
}

func (j jumpKeys) Get(ctx context.Context, host string) ([]string, error) {
	for _, to := range j.jumps {
		if address, err := parseEndpoint(to.Endpoint); err == nil && len(to.HostKeys) > 0 && host == jumpHost(address) {
			return to.HostKeys, nil
		}
	}
	return j.HostKeys.Get(ctx, host)
}

// jumpHost names the jump host at an address, among all hosts that have keys.
func jumpHost(address string) string { return "jump/" + address }

// HostKeyError means that a host is not known by the key that it has shown.
type HostKeyError struct {
	Host    string // machine id, or "jump/" and an address
	Address string
	Seen    string   // the key that was shown, as in authorized_keys
	Wanted  []string // those that are pinned; none if there is none and none may be pinned at first sight
}

// Error reports which key was seen, which was wanted, and what to do.
func (e *HostKeyError) Error() string {
	if len(e.Wanted) == 0 {
		return fmt.Sprintf("host %s at %s shows the key %s, and none is pinned: compare it with what the host says on its console (ssh-keygen -lf), then pin it (%s), or set host_keys to %s",
			e.Host, e.Address, fingerprint(e.Seen), e.where(), FirstSight)
	}
	wanted := make([]string, len(e.Wanted))
	for i, k := range e.Wanted {
		wanted[i] = fingerprint(k)
	}
	return fmt.Sprintf("host %s at %s shows the key %s, and %s is pinned: if the host was installed anew, pin the new key (%s); if not, another host answers at this address, or somebody sits in between",
		e.Host, e.Address, fingerprint(e.Seen), strings.Join(wanted, " or "), e.where())
}

// where reports where a key is pinned by hand.
func (e *HostKeyError) where() string {
	if strings.HasPrefix(e.Host, jumpHost("")) {
		return "host_keys of the jump host, in the provider's configuration"
	}
	return "the machine's spec.ssh_host_keys"
}

func fingerprint(authorized string) string {
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(authorized))
	if err != nil {
		return "(not a key)"
	}
	return k.Type() + " " + ssh.FingerprintSHA256(k)
}

// gatekeeper checks the key of one handshake.
type gatekeeper struct {
	host, address string
	first         bool // what is seen first may be pinned
	pinned        []ssh.PublicKey
	lines         []string

	seen    ssh.PublicKey
	refused *HostKeyError
}

func newGatekeeper(ctx context.Context, keys HostKeys, host, address, policy string) (*gatekeeper, error) {
	lines, err := keys.Get(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look up the pinned key of %s: %w", host, err)
	}
	g := &gatekeeper{host: host, address: address, first: policy == FirstSight, lines: lines}
	for _, l := range lines {
		k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(l))
		if err != nil {
			return nil, fmt.Errorf("read the pinned key of %s: %w", host, err)
		}
		g.pinned = append(g.pinned, k)
	}
	return g, nil
}

// check is the client's HostKeyCallback.
func (g *gatekeeper) check(key ssh.PublicKey) error {
	g.seen = key
	for _, k := range g.pinned {
		if bytes.Equal(k.Marshal(), key.Marshal()) {
			return nil
		}
	}
	if len(g.pinned) == 0 && g.first {
		return nil
	}
	g.refused = &HostKeyError{Host: g.host, Address: g.address, Seen: authorizedLine(key), Wanted: g.lines}
	return g.refused
}

// algorithms asks for the kinds of keys that are pinned: a host has several, and shows one.
func (g *gatekeeper) algorithms() []string {
	var as []string
	for _, k := range g.pinned {
		kinds := []string{k.Type()}
		if k.Type() == ssh.KeyAlgoRSA {
			kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range kinds {
			if !slices.Contains(as, a) {
				as = append(as, a)
			}
		}
	}
	return as
}

// pin keeps what was seen first, once the login has worked.
func (g *gatekeeper) pin(ctx context.Context, keys HostKeys) error {
	if len(g.pinned) > 0 || g.seen == nil {
		return nil
	}
	if err := keys.Pin(ctx, g.host, authorizedLine(g.seen)); err != nil {
		return fmt.Errorf("pin the key of %s: %w", g.host, err)
	}
	return nil
}

func authorizedLine(k ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// PinnedInMemory is a HostKeys that ends with the process.
type PinnedInMemory struct {
	mu   sync.Mutex
	keys map[string][]string
}

// NewPinnedInMemory makes one that knows some keys already.
func NewPinnedInMemory(known map[string][]string) *PinnedInMemory {
	p := &PinnedInMemory{keys: map[string][]string{}}
	for h, ks := range known {
		p.keys[h] = slices.Clone(ks)
	}
	return p
}

// Get returns the keys of a host.
func (p *PinnedInMemory) Get(_ context.Context, host string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.keys[host]), nil
}

// Pin keeps the first.
func (p *PinnedInMemory) Pin(_ context.Context, host, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.keys[host]; len(old) > 0 && !slices.Contains(old, key) {
		return fmt.Errorf("another key of %s was pinned meanwhile: %s", host, fingerprint(old[0]))
	}
	p.keys[host] = []string{key}
	return nil
}
