package sshexec

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// HostKeys stores the keys of hosts, from the inventory, an installer's report, or first sight. A
// host is a machine's id, or "jump/" and the address of a jump host. Keys are written as in
// authorized_keys: "ssh-ed25519 AAAA…".
type HostKeys interface {
	// Get returns the pinned keys of a host. A host without keys is not an error.
	Get(ctx context.Context, host string) ([]string, error)
	// Pin stores the first key of a host. It returns an error if the host has another one by then.
	Pin(ctx context.Context, host, key string) error
}

// jumpKeys adds the keys of jump hosts in the configuration. They override pinned keys.
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

// jumpHost returns the name of the jump host at an address, for HostKeys.
func jumpHost(address string) string { return "jump/" + address }

// HostKeyError means that a host has shown a key that is not pinned for it.
type HostKeyError struct {
	Host    string // machine id, or "jump/" and an address
	Address string
	Seen    string   // shown key, as in authorized_keys
	Wanted  []string // pinned keys; empty if none is pinned and first sight is not allowed
}

// Error names the key that was shown, the pinned keys, and the remedy.
func (e *HostKeyError) Error() string {
	if len(e.Wanted) == 0 {
		return fmt.Sprintf("host %s at %s shows the key %s, and none is pinned: compare it with the key on "+
			"the host's console (ssh-keygen -lf), then pin it (%s), or set host_keys to %s",
			e.Host, e.Address, fingerprint(e.Seen), e.where(), FirstSight)
	}
	wanted := make([]string, len(e.Wanted))
	for i, k := range e.Wanted {
		wanted[i] = fingerprint(k)
	}
	return fmt.Sprintf("host %s at %s shows the key %s, but %s is pinned: if the host was reinstalled, "+
		"pin the new key (%s); otherwise another host answers at this address, or the connection is intercepted",
		e.Host, e.Address, fingerprint(e.Seen), strings.Join(wanted, " or "), e.where())
}

// where names the setting in which an operator pins a key.
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

// gatekeeper checks the host key of one handshake.
type gatekeeper struct {
	host, address string
	first         bool // the first key may be pinned
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

// check implements the client's HostKeyCallback.
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

// algorithms returns the algorithms of the pinned keys: a host has several keys and shows one.
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

// pin stores the first key of a host after a successful login.
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
