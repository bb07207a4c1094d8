// Package sshd runs a real OpenSSH server on this machine, for tests whose peers log in to
// hosts.
//
// It manages the server, its keys and its files, and does not depend on the commands.
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

// Missing returns the reason why a server cannot be started here, or "".
func Missing() string {
	if _, err := os.Stat(program); err != nil {
		return program + " not found (Debian: apt-get install openssh-server)"
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil && os.Geteuid() != 0 {
		return "with systemd, commands run as units, which requires root"
	}
	return ""
}

// Server is a server on loopback, run by the tests' user, with the data that peers need to
// log in.
type Server struct {
	Addr       string // host:port
	HostKey    string // a line of authorized_keys
	User       string
	PrivateKey string // PEM
	Dir        string // its files

	starter *proc.Starter
}

// Start starts a server at an address, host:port, with its files in a directory, which it
// creates. It blocks until the server answers. The server must be closed.
func Start(ctx context.Context, dir, addr string) (*Server, error) { return StartIn(ctx, dir, addr) }

// StartIn is like Start but runs the server with another command, such as unshare.
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

// Close stops the server. Existing logins continue.
func (s *Server) Close() { s.starter.Close() }

// answers blocks until the server listens.
func (s *Server) answers(ctx context.Context, p *proc.Process) error {
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.Done():
			log, _ := os.ReadFile(filepath.Join(s.Dir, "sshd.log")) // its output, if any
			return fmt.Errorf("it has ended: %s", log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// write creates keys and the configuration, and returns its path.
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
	config := []string{"ListenAddress " + host, "Port " + port, "HostKey " + at("host"), "AuthorizedKeysFile " +
		at("authorized"), "MaxStartups 100",
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes", "UseDNS no"}
	files := map[string]string{"host": hostPrivate, "authorized": login}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return "", err
		}
	} else { // the user must be able to become root: this sudo just runs the command
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
