package sshexec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/crypto/ssh"
)

// Login is the content of a secret of type ssh. It is printed without its secret parts.
type Login struct {
	Username    string // default root; other users need sudo without a password
	PrivateKey  []byte // PEM; an encrypted one is decrypted with Password
	Certificate []byte // for PrivateKey, as a line of authorized_keys
	Password    string
}

// String returns the user only.
func (l Login) String() string { return "login of " + l.user() }

// GoString returns the user only.
func (l Login) GoString() string { return l.String() }

// LogValue returns the user only.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

func (l Login) user() string { return cmp.Or(l.Username, "root") }

// digest identifies a login without storing it.
func (l Login) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(l.Username), l.PrivateKey, l.Certificate, []byte(l.Password)} {
		_, _ = fmt.Fprintf(h, "%d:", len(part)) // writes to a hash never fail
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Credentials reads secrets of type ssh by name.
type Credentials interface {
	// Login is called before each login to a host. Its errors contain no secret.
	Login(ctx context.Context, ref string) (Login, error)
}

// methods returns the ways to log in: certificate, key, password. now decides whether the
// certificate is still valid. If common is true, the secret is the default for all machines, and
// its password is not sent: a user who registers a machine chooses its address, and would receive
// the password. A key is never sent.
func (l Login) methods(now time.Time, common bool) ([]ssh.AuthMethod, error) {
	var ms []ssh.AuthMethod
	password := l.Password
	if len(l.PrivateKey) > 0 {
		key, err := ssh.ParsePrivateKey(l.PrivateKey)
		if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok && password != "" {
			key, err = ssh.ParsePrivateKeyWithPassphrase(l.PrivateKey, []byte(password))
			password = "" // it was for the key
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
			return nil, errors.New("the secret has only a password, which is not sent to machines without " +
				"a secret of their own: name it in ssh_credentials_ref of the machine, or add a private_key")
		}
		return ms, nil
	}
	if password != "" {
		// Servers ask in one of two ways. The password is sent only once, because each refusal may
		// bring the account closer to a lock.
		sent := false
		once := func() (string, error) {
			if sent {
				return "", errPassword
			}
			sent = true
			return password, nil
		}
		interactive := func(_, _ string, questions []string, echos []bool) ([]string, error) {
			if len(questions) == 0 {
				return nil, nil
			}
			if len(questions) != 1 || echos[0] {
				return nil, errors.New("the server asks for something other than a password")
			}
			p, err := once()
			return []string{p}, err
		}
		ms = append(ms, ssh.PasswordCallback(once), ssh.KeyboardInteractive(interactive))
	}
	if len(ms) == 0 {
		return nil, errors.New("the secret has neither private_key nor password")
	}
	return ms, nil
}

// errPassword ends a handshake after the password was refused.
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
		return nil, fmt.Errorf("certificate %q expired at %s: store a new one in the secret",
			cert.KeyId, time.Unix(int64(cert.ValidBefore), 0).UTC().Format(time.RFC3339))
	}
	s, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %q does not match private_key: %w", cert.KeyId, err)
	}
	return s, nil
}
