package sshexec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/crypto/ssh"
)

// Login is what a secret of type ssh holds. It prints without what is secret in it.
type Login struct {
	Username    string // default root; anybody else needs sudo without a password
	PrivateKey  []byte // PEM; one that is encrypted is opened with Password
	Certificate []byte // for PrivateKey, as a line of authorized_keys
	Password    string
}

// String names the user only.
func (l Login) String() string { return "login of " + l.user() }

// GoString does too.
func (l Login) GoString() string { return l.String() }

// LogValue does too.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

func (l Login) user() string {
	if l.Username == "" {
		return "root"
	}
	return l.Username
}

// digest tells one login from another without keeping it.
func (l Login) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(l.Username), l.PrivateKey, l.Certificate, []byte(l.Password)} {
		_, _ = fmt.Fprintf(h, "%d:", len(part)) // a hash takes everything
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Credentials opens secrets of type ssh by their names.
type Credentials interface {
	// Login is asked for each time a host is logged in to. Its errors hold no secret.
	Login(ctx context.Context, ref string) (Login, error)
}

// methods returns how to log in: certificate, key, password. now decides whether the certificate is
// still good. A secret that is common to all machines which name none sends no password: whoever
// may register a machine says where its host is, and would be told it. A key proves itself and
// stays here.
func (l Login) methods(now time.Time, common bool) ([]ssh.AuthMethod, error) {
	var ms []ssh.AuthMethod
	password := l.Password
	if len(l.PrivateKey) > 0 {
		key, err := ssh.ParsePrivateKey(l.PrivateKey)
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) && password != "" {
			key, err = ssh.ParsePrivateKeyWithPassphrase(l.PrivateKey, []byte(password))
			password = "" // it is for the key
		}
		if err != nil {
			return nil, fmt.Errorf("read private_key: %w", err)
		}
		signers := []ssh.Signer{key}
		if len(l.Certificate) > 0 {
			s, err := certified(l.Certificate, key, now)
			if err != nil {
				return nil, err
			}
			signers = []ssh.Signer{s, key}
		}
		ms = append(ms, ssh.PublicKeys(signers...))
	}
	if common && password != "" {
		if len(ms) == 0 {
			return nil, errors.New("the secret has only a password, which is not sent to machines that name no secret: name it in ssh_credentials_ref of the machine, or give the secret a private_key")
		}
		return ms, nil
	}
	if password != "" {
		// Servers ask in one of two ways. The password is sent once: a second refusal would bring
		// the lock of the account nearer.
		sent := false
		once := func() (string, error) {
			if sent {
				return "", errPassword
			}
			sent = true
			return password, nil
		}
		ms = append(ms, ssh.PasswordCallback(once), ssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
			if len(questions) == 0 {
				return nil, nil
			}
			if len(questions) != 1 || echos[0] {
				return nil, errors.New("the server asks for something other than a password")
			}
			p, err := once()
			return []string{p}, err
		}))
	}
	if len(ms) == 0 {
		return nil, errors.New("the secret has neither private_key nor password")
	}
	return ms, nil
}

// errPassword ends a handshake whose password was refused in one of the ways.
var errPassword = errors.New("ssh: unable to authenticate: the password was refused")

func certified(line []byte, key ssh.Signer, now time.Time) (ssh.Signer, error) {
	pub, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	cert, ok := pub.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("read certificate: it is a plain key of type %s", pub.Type())
	}
	if unix := uint64(now.Unix()); cert.ValidBefore != ssh.CertTimeInfinity && unix >= cert.ValidBefore {
		return nil, fmt.Errorf("certificate %q expired at %s: put a new one into the secret", cert.KeyId, time.Unix(int64(cert.ValidBefore), 0).UTC().Format(time.RFC3339))
	}
	s, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %q does not go with private_key: %w", cert.KeyId, err)
	}
	return s, nil
}
