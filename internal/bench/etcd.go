package bench

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

const etcdMembers = 3

// etcd is a cluster of etcd: as many members as there are peers, as it is by default, with TLS as
// the peers have it, on the same disk.
type etcd struct {
	version string
	members []*etcdMember
	creds   credentials.TransportCredentials
	ports   *freeport.Block
}

type etcdMember struct {
	addr    string
	program *localcluster.Program
	start   func() error
}

// findEtcd returns the program, or why there is none.
func (s *session) findEtcd() (program, why string) {
	if s.etcd != "" {
		return s.etcd, ""
	}
	beside := filepath.Join(filepath.Dir(s.binary), "etcd")
	if _, err := os.Stat(beside); err == nil {
		return beside, ""
	}
	if p, err := exec.LookPath("etcd"); err == nil {
		return p, ""
	}
	return "", "there is no " + beside + " (make build-etcd), and no etcd in $PATH (apt-get install etcd-server)"
}

// startEtcd starts one and waits until it has a leader.
func (s *session) startEtcd(ctx context.Context, program string) (e *etcd, err error) {
	dir := filepath.Join(s.dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e = &etcd{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start etcd: %w", err), e.close())
		}
	}()
	if e.ports, err = freeport.Claim(ctx, 2*etcdMembers); err != nil {
		return e, err
	}
	var names, peers, initial []string
	for i := range etcdMembers {
		names = append(names, fmt.Sprintf("e%d", i+1))
		e.members = append(e.members, &etcdMember{addr: e.ports.Address("127.0.0.1")})
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
	e.creds = credentials.NewTLS(tls)
	for i, m := range e.members {
		cert, key := files.Peer(names[i])
		public := "https://" + m.addr
		args := []string{"--name", names[i], "--data-dir", filepath.Join(dir, names[i]), "--logger", "zap",
			"--log-level", "error",
			"--listen-client-urls", public, "--advertise-client-urls", public, "--listen-peer-urls", peers[i],
			"--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(initial,
				","), "--initial-cluster-state", "new", "--initial-cluster-token", "bench",
			"--cert-file", cert, "--key-file", key, "--trusted-ca-file", files.CA, "--client-cert-auth",
			"--peer-cert-file", cert, "--peer-key-file", key, "--peer-trusted-ca-file", files.CA, "--peer-client-cert-auth"}
		m.start = func() (err error) {
			m.program, err = localcluster.StartProgram(program, args, nil, filepath.Join(dir, names[i]+".log"))
			return err
		}
		if err := m.start(); err != nil {
			return e, err
		}
	}
	_, err = e.leader(ctx)
	return e, err
}

// leader waits until a member says that it leads, and gives it.
func (e *etcd) leader(ctx context.Context) (*etcdMember, error) {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	for {
		var last error
		for _, m := range e.members {
			leads, version, err := e.ask(ctx, m)
			if err != nil {
				last = err
				continue
			}
			if e.version = version; leads {
				return m, nil
			}
		}
		if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for a leader of etcd: %w", errors.Join(last, e.ended()))
		}
	}
}

func (e *etcd) ask(ctx context.Context, m *etcdMember) (leads bool, version string, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	conn, err := grpc.NewClient(m.addr, grpc.WithTransportCredentials(e.creds))
	if err != nil {
		return false, "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return etcdLeads(ctx, conn)
}

// ended reports which members have ended, and what they said last.
func (e *etcd) ended() error {
	for _, m := range e.members {
		select {
		case <-m.program.Done():
			return fmt.Errorf("a member has ended; the end of its log:\n%s", m.program.LogTail(2000))
		default:
		}
	}
	return nil
}

// pids returns the processes of all members.
func (e *etcd) pids() []int {
	var all []int
	for _, m := range e.members {
		all = append(all, m.program.PID())
	}
	return all
}

func (e *etcd) close() error {
	var errs []error
	for _, m := range e.members {
		if m.program != nil {
			errs = append(errs, m.program.Kill())
		}
	}
	if e.ports != nil {
		errs = append(errs, e.ports.Release())
	}
	return errors.Join(errs...)
}
