package localcluster

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// Config describes the processes to start and their files.
type Config struct {
	Binary string // the holdfast executable
	// Dir has each peer's files: <Dir>/<id>/data, <Dir>/<id>/config.yaml and <Dir>/<id>.log,
	// and certificates. It is created if missing, and never removed.
	Dir   string
	Peers int // 1, 3, 5 or 7; ids n1 to nN. Default 3
	// FakeEndpoint is the address of fake hardware, e.g. "http://127.0.0.1:7450". It becomes each
	// peer's provider "fake".
	FakeEndpoint string
	// Providers is YAML added below "providers:" in each peer's configuration, besides the fake
	// hardware.
	Providers string
	// Insecure disables TLS and authentication. Without it certificates are created in
	// <Dir>/tls-…, and the holder of Cluster.TLS is an admin.
	Insecure bool
	// Renewals makes the peers renew their certificates themselves.
	Renewals       bool
	RaftMultiplier float64  // scales Raft's timeouts; zero leaves the peers' default
	Env            []string // more variables of each peer, KEY=value. HOLDFAST_* of this process is not inherited
	Args           []string // more arguments of each peer
	// ArgsOf returns more arguments of peer i (from 0), after Args. Nil for none.
	ArgsOf func(i int) []string

	// Spare is the number of peers that Cluster.Add can add later. Their ids, hosts and
	// certificates follow those of the first.
	Spare int
	// Trust has more CAs, in PEM, that the clients trust from the start: those that the peers will
	// have later.
	Trust []byte

	// Hosts are the addresses that the peers listen on, one each. Default: 127.0.0.1 for all.
	Hosts []string
	// Enter is called on the thread that starts the processes of peer i (from 0), before the first
	// one, for example to enter a network namespace. The thread runs nothing else. Nil for none.
	Enter func(i int) error
}

// maxPeers is the capacity of a block of ports, at four per peer.
const maxPeers = freeport.Size / 4

// localhost is the default host of the peers.
const localhost = "127.0.0.1"

func (c Config) withDefaults() (Config, error) {
	c.Peers = cmp.Or(c.Peers, 3)
	if c.Peers < 1 || c.Peers > maxPeers || c.Peers%2 == 0 {
		return c, fmt.Errorf("start a local cluster of %d peers: want 1, 3, 5 or %d", c.Peers, maxPeers)
	}
	if c.Binary == "" || c.Dir == "" {
		return c, errors.New("start a local cluster: set its binary and its directory")
	}
	if c.Spare < 0 || c.Peers+c.Spare > maxPeers {
		return c, fmt.Errorf("start a local cluster of %d peers and %d spare ones: want at most %d in total",
			c.Peers, c.Spare, maxPeers)
	}
	for len(c.Hosts) < c.Peers+c.Spare {
		c.Hosts = append(slices.Clone(c.Hosts), localhost)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("find the directory of the local cluster: %w", err)
	}
	c.Dir = dir
	return c, nil
}

const (
	pollInterval = 20 * time.Millisecond // between two polls of a peer
	pollTimeout  = time.Second           // of one poll
	stopTimeout  = 15 * time.Second      // from SIGTERM to SIGKILL when a cluster is closed
)
