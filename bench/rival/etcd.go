// Package rival starts the systems that the benchmarks compare with, on the same machine and in the
// same way as the peers: etcd, Ironic with fake hardware, and empty handlers in their own process.
//
// It owns their processes, clients and settings, which must be fair to them. It must not know the
// benchmarks or start peers.
package rival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/internal/cli/pki"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

const (
	etcdMembers  = 3
	readyTimeout = time.Minute // for a system to start
)

// Etcd is a cluster of three members of etcd with default settings, with TLS like the peers, on the
// same disk.
type Etcd struct {
	Version string
	Members []*Member
	Creds   credentials.TransportCredentials
	ports   *freeport.Block
}

// Member is a member of etcd.
type Member struct {
	Addr    string
	Program *localcluster.Program
	Start   func() error // starts it again
}

// FindEtcd returns the path of etcd in the directory of another program or in $PATH. If there is
// none it returns the reason in why.
func FindEtcd(binary string) (program, why string) {
	sibling := filepath.Join(filepath.Dir(binary), "etcd")
	if _, err := os.Stat(sibling); err == nil {
		return sibling, ""
	}
	if p, err := exec.LookPath("etcd"); err == nil {
		return p, ""
	}
	return "", "there is no " + sibling + " (make build-etcd), and no etcd in $PATH (apt-get install etcd-server)"
}

// StartEtcd starts etcd with its data below dir and waits until it has a leader.
func StartEtcd(ctx context.Context, program, dir string) (e *Etcd, err error) {
	dir = filepath.Join(dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e = &Etcd{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start etcd: %w", err), e.Close())
		}
	}()
	if e.ports, err = freeport.Claim(ctx, 2*etcdMembers); err != nil {
		return e, err
	}
	var names, peers, initial []string
	for i := range etcdMembers {
		names = append(names, fmt.Sprintf("e%d", i+1))
		e.Members = append(e.Members, &Member{Addr: e.ports.Address("127.0.0.1")})
		peers = append(peers, "https://"+e.ports.Address("127.0.0.1"))
		initial = append(initial, names[i]+"="+peers[i])
	}
	files, err := pki.Material(filepath.Join(dir, "tls"), "etcd", names)
	if err != nil {
		return e, err
	}
	tls, err := client.LoadTLS(files.CA, files.AdminCert, files.AdminKey)
	if err != nil {
		return e, err
	}
	e.Creds = credentials.NewTLS(tls)
	for i, m := range e.Members {
		cert, key := files.Peer(names[i])
		public := "https://" + m.Addr
		args := []string{"--name", names[i], "--data-dir", filepath.Join(dir, names[i]), "--logger", "zap",
			"--log-level", "error",
			"--listen-client-urls", public, "--advertise-client-urls", public, "--listen-peer-urls", peers[i],
			"--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(initial,
				","), "--initial-cluster-state", "new", "--initial-cluster-token", "bench",
			"--cert-file", cert, "--key-file", key, "--trusted-ca-file", files.CA, "--client-cert-auth",
			"--peer-cert-file", cert, "--peer-key-file", key, "--peer-trusted-ca-file", files.CA, "--peer-client-cert-auth"}
		m.Start = func() (err error) {
			m.Program, err = localcluster.StartProgram(program, args, nil, filepath.Join(dir, names[i]+".log"))
			return err
		}
		if err := m.Start(); err != nil {
			return e, err
		}
	}
	_, err = e.Leader(ctx)
	return e, err
}

// Leader waits until a member reports that it leads, and returns it.
func (e *Etcd) Leader(ctx context.Context) (*Member, error) {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	for {
		var last error
		for _, m := range e.Members {
			leads, version, err := e.ask(ctx, m)
			if err != nil {
				last = err
				continue
			}
			if e.Version = version; leads {
				return m, nil
			}
		}
		if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for a leader of etcd: %w", errors.Join(last, e.ended()))
		}
	}
}

func (e *Etcd) ask(ctx context.Context, m *Member) (leads bool, version string, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	conn, err := grpc.NewClient(m.Addr, grpc.WithTransportCredentials(e.Creds))
	if err != nil {
		return false, "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return etcdLeads(ctx, conn)
}

// ended returns an error with the end of the log if a member has ended.
func (e *Etcd) ended() error {
	for _, m := range e.Members {
		select {
		case <-m.Program.Done():
			return fmt.Errorf("a member has ended; the end of its log:\n%s", m.Program.LogTail(2000))
		default:
		}
	}
	return nil
}

// PIDs returns the processes of all members.
func (e *Etcd) PIDs() []int {
	var all []int
	for _, m := range e.Members {
		all = append(all, m.Program.PID())
	}
	return all
}

// Close kills all members.
func (e *Etcd) Close() error {
	var errs []error
	for _, m := range e.Members {
		if m.Program != nil {
			errs = append(errs, m.Program.Kill())
		}
	}
	if e.ports != nil {
		errs = append(errs, e.ports.Release())
	}
	return errors.Join(errs...)
}
