package peertls

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"
)

// Ask sends a certificate request (PKCS #10, DER) to the leader. It returns the certificate,
// followed by its issuer's (PEM).
type Ask func(ctx context.Context, csr []byte) (chain []byte, err error)

// RenewedFile is the name of the file in the data directory that has the last renewed certificate
// and its key.
const RenewedFile = "renewed.pem"

const (
	renewRetries = 200 // attempts in the life of a certificate
	renewMost    = 10 * time.Minute
	renewPoll    = time.Minute // between two readings of the clock, which may be corrected meanwhile
	renewLeast   = 500 * time.Millisecond
	askTimeout   = 10 * time.Second
)

// Renews reports whether this peer renews its certificate itself.
func (s *Store) Renews() bool { return s.cfg.Renewed != "" }

// Leaf returns the peer's certificate in use.
func (s *Store) Leaf() *x509.Certificate { return s.set.Load().leaf }

// KeepRenewed renews the certificate at about two thirds of its life until ctx ends. A certificate
// that was not renewed yet, or is to last much longer than renewed ones, is renewed at once.
func (s *Store) KeepRenewed(ctx context.Context, ask Ask) error {
	if !s.Renews() {
		return nil
	}
	logged := ""
	for {
		now := s.cfg.Now()
		pause := s.renewAt(now).Sub(now)
		if pause <= 0 {
			err := s.renew(ctx, ask)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil && err.Error() != logged:
				logged = err.Error()
				s.log.Warn("certificate not renewed, will retry", "not_after", s.Leaf().NotAfter, "error", err)
			case err == nil:
				logged = ""
			}
			pause = min(renewMost, s.cfg.Life/renewRetries)
		}
		select {
		case <-time.After(max(renewLeast, min(pause, renewPoll, s.cfg.Life/renewRetries))): // files may be replaced meanwhile
		case <-ctx.Done():
			return nil
		}
	}
}

// renewAt returns when the certificate in use is to be renewed. The times of different certificates
// are spread, so that not all peers ask at once.
func (s *Store) renewAt(now time.Time) time.Time {
	m := s.set.Load()
	if !m.renewed {
		return now
	}
	issued := Issued(m.leaf)
	life := m.leaf.NotAfter.Sub(issued)
	h := fnv.New32a()
	_, _ = h.Write(m.leaf.SerialNumber.Bytes())
	return issued.Add(life*2/3 - life/10*time.Duration(h.Sum32()%1000)/1000)
}

// late reports whether the certificate should have been renewed long ago.
func (s *Store) late(now time.Time) bool {
	if !s.Renews() {
		return false
	}
	m := s.set.Load()
	if !m.renewed {
		return time.Since(s.opened) > s.cfg.Life/6
	}
	return m.leaf.NotAfter.Sub(now) < m.leaf.NotAfter.Sub(Issued(m.leaf))/5
}

// renew gets a certificate for a new key, stores both, and switches to them.
func (s *Store) renew(ctx context.Context, ask Ask) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return fmt.Errorf("make certificate request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	chain, err := ask(ctx, csr)
	if err != nil {
		return fmt.Errorf("ask the leader for a certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), chain...)
	s.mu.Lock()
	r := s.seen
	s.mu.Unlock()
	if _, err := s.cfg.parseRenewed(r, both, s.cfg.Now()); err != nil {
		return fmt.Errorf("use the certificate of the leader: %w", err)
	}
	if err := replaceFile(s.cfg.Renewed, both); err != nil {
		return fmt.Errorf("store the renewed certificate: %w", err)
	}
	s.refresh(true)
	return nil
}

// replaceFile writes a file that only its owner may read, as a whole or not at all.
func replaceFile(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// readRenewed returns the contents of the file of the renewed certificate; none if there is none.
func readRenewed(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// parseRenewed returns the set with a renewed certificate.
func (c *Config) parseRenewed(r raw, both []byte, now time.Time) (*set, error) {
	r.cert, r.key = both, both
	at := *c
	at.Cert, at.Key = c.Renewed, c.Renewed
	s, err := parseOne(&at, r, now)
	if err != nil {
		return nil, err
	}
	s.renewed = true
	return s, nil
}

// parse returns the set to use: that of the files, or that of the renewed certificate if it was
// made later and has not ended by the latest time that it may be. It returns an error if the peer
// cannot use the files now, except if they have only expired.
func parse(c *Config, r raw, now time.Time) (*set, error) {
	s, err := parseOne(c, r, now)
	if len(r.renewed) == 0 || err != nil && !isExpired(err) {
		return s, err
	}
	renewed, bad := c.parseRenewed(r, r.renewed, now)
	if bad != nil || err == nil && !Issued(renewed.leaf).After(Issued(s.leaf)) {
		return s, err // for example of a CA that has been replaced
	}
	if at := c.Latest(); err == nil && at.After(renewed.leaf.NotAfter) && !at.After(s.leaf.NotAfter) {
		return s, nil // the other peers may refuse the renewed one
	}
	return renewed, nil
}

// isExpired reports whether a certificate is of no use only because of its age.
func isExpired(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// checkIssuers returns an error if a CA for peers only has certified something else, or is not one
// of those that this peer knows. Without a file of such CAs, each one under a CA of the cluster
// will do.
func (s *set) checkIssuers(leaf *x509.Certificate, chains [][]*x509.Certificate) error {
	for _, chain := range chains {
		for _, ca := range chain[min(1, len(chain)):] {
			of, only := PeersCA(ca)
			if !only {
				continue
			}
			if cluster, _, ok := PeerID(leaf); !ok || cluster != of {
				return fmt.Errorf("%w: the CA %q certifies only peers of cluster %s", ErrNotPeer, ca.Subject.CommonName, of)
			}
			known := len(s.peerCAs) == 0
			for _, k := range s.peerCAs {
				known = known || bytes.Equal(k.Raw, ca.Raw)
			}
			if !known {
				return fmt.Errorf("%w: the CA of peers with serial %s is not in the file of tls_peer_ca", ErrNotPeer,
					ca.SerialNumber.Text(16))
			}
		}
	}
	return nil
}
