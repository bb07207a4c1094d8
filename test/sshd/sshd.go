// Package sshd runs a real OpenSSH server on this machine, for tests whose peers log in to hosts.
//
// It owns the server, its keys and its files. It must not know what is run on it.
package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/test/bmclab/proc"
)

const program = "/usr/sbin/sshd"

// Missing reports what keeps a server from being started here; "" if nothing does.
func Missing() string {
	if _, err := os.Stat(program); err != nil {
		return "there is no " + program + " (Debian: apt-get install openssh-server)"
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil && os.Geteuid() != 0 {
		return "on a machine with systemd commands run as its units, and that takes root"
	}
	return ""
}

// Server is a server on loopback, as the user who runs the tests, and what peers need to log in.
type Server struct {
	Addr       string // host:port
	HostKey    string // a line of authorized_keys
	User       string
	PrivateKey string // PEM
	Dir        string // its files

	starter *proc.Starter
}

// Start starts a server at an address, host:port, with its files in a directory, which is made, and
// waits until it answers. Close it.
func Start(ctx context.Context, dir, addr string) (*Server, error) { return StartIn(ctx, dir, addr) }

// StartIn is Start below another command, which runs what comes after its arguments: unshare, say.
func StartIn(ctx context.Context, dir, addr string, enter ...string) (*Server, error) {
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("start sshd: %w", err)
	}
	s := &Server{Addr: addr, User: me.Username, Dir: dir}
	config, err := s.write()
	if err != nil {
		return nil, fmt.Errorf("start sshd: %w", err)
	}
	s.starter = proc.NewStarter()
	command := append(slices.Clone(enter), program, "-D", "-e", "-f", config)
	p, err := s.starter.Start(filepath.Join(dir, "sshd.log"), command[0], command[1:]...)
	if err == nil {
		err = s.answers(ctx, p)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start sshd: %w", err)
	}
	return s, nil
}

// Close ends the server. Who has logged in stays.
func (s *Server) Close() { s.starter.Close() }

// answers waits until somebody listens.
func (s *Server) answers(ctx context.Context, p *proc.Process) error {
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.Done():
			log, _ := os.ReadFile(filepath.Join(s.Dir, "sshd.log")) // what there is
			return fmt.Errorf("it has ended: %s", log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// write makes keys and the configuration, and gives the path of that.
func (s *Server) write() (string, error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return "", err
	}
	hostKey, hostPrivate, err := newKey()
	if err != nil {
		return "", err
	}
	login, private, err := newKey()
	if err != nil {
		return "", err
	}
	s.HostKey, s.PrivateKey = hostKey, private
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "", err
	}
	at := func(name string) string { return filepath.Join(s.Dir, name) }
	config := []string{"ListenAddress " + host, "Port " + port, "HostKey " + at("host"), "AuthorizedKeysFile " + at("authorized"), "MaxStartups 100",
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes", "UseDNS no"}
	files := map[string]string{"host": hostPrivate, "authorized": login}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return "", err
		}
	} else { // whoever logs in is to be root, or may become it: here that user may do all that the test needs
		if err := os.WriteFile(at("sudo"), []byte("#!/bin/sh\nshift\nexec \"$@\"\n"), 0o755); err != nil {
			return "", err
		}
		config = append(config, "SetEnv PATH="+s.Dir+":"+os.Getenv("PATH"))
	}
	files["config"] = strings.Join(config, "\n") + "\n"
	for name, text := range files {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return at("config"), nil
}

func newKey() (public, private string, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return "", "", err
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), string(pem.EncodeToMemory(block)), nil
}
