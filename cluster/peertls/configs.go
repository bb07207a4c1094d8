package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// Handshakes are never resumed: each one is judged by the certificates that are in the files then.

// PeerServer is for the listener that only peers connect to (Raft). Both sides present
// certificates; TLS 1.3 only.
func (s *Store) PeerServer() *tls.Config {
	return s.server(tls.VersionTLS13, tls.RequireAndVerifyClientCert, nil, func(leaf *x509.Certificate) error {
		_, err := s.peer(leaf)
		return err
	})
}

// PeerClient is for connections to another peer. ids are the peers that it may be; none means any
// peer of this cluster. Who it is stands in its certificate: names and addresses of hosts are not
// looked at.
func (s *Store) PeerClient(ids ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &s.current().pair, nil // also when a CA is asked for that we have left behind: the other side shall say why
		},
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection verifies, by another name than the host's
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return errors.New("the server has no certificate")
			}
			leaf := cs.PeerCertificates[0]
			if err := s.current().verify(leaf, cs.PeerCertificates[1:], x509.ExtKeyUsageServerAuth, time.Now()); err != nil {
				return err
			}
			id, err := s.peer(leaf)
			if err != nil {
				return err
			}
			if len(ids) > 0 && !slices.Contains(ids, id) {
				return fmt.Errorf("it is peer %s, not %s", id, strings.Join(ids, " or "))
			}
			return nil
		},
	}
}

// PeerCredentials are for gRPC connections to the peer of that id.
func (s *Store) PeerCredentials(id string) credentials.TransportCredentials {
	return credentials.NewTLS(s.PeerClient(id))
}

// API is for the gRPC listener: clients may present a certificate, and then it must be a good one.
func (s *Store) API() *tls.Config { return s.public("h2") }

// HTTP is for the HTTP listener: as API, for HTTP/2 and HTTP/1.1.
func (s *Store) HTTP() *tls.Config { return s.public("h2", "http/1.1") }

func (s *Store) public(protos ...string) *tls.Config {
	return s.server(tls.VersionTLS12, tls.VerifyClientCertIfGiven, protos, func(leaf *x509.Certificate) error {
		if !claimsPeer(leaf) {
			return nil
		}
		_, err := s.peer(leaf)
		return err
	})
}

// server makes the configuration of a listener. check judges the client's certificate, which has
// been verified.
func (s *Store) server(least uint16, auth tls.ClientAuthType, protos []string, check func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: least, NextProtos: protos, SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current()
			return &tls.Config{
				MinVersion: least, NextProtos: protos, SessionTicketsDisabled: true,
				Certificates: []tls.Certificate{m.pair}, ClientCAs: m.roots, ClientAuth: auth,
				VerifyConnection: func(cs tls.ConnectionState) error {
					if len(cs.PeerCertificates) == 0 {
						return nil // ClientAuth has judged that
					}
					leaf := cs.PeerCertificates[0]
					if err := check(leaf); err != nil {
						return err
					}
					bound(hello.Conn, leaf.NotAfter)
					return nil
				},
			}, nil
		},
	}
}

// peer returns the id of the peer of this cluster that a certificate names.
func (s *Store) peer(leaf *x509.Certificate) (string, error) {
	cluster, id, ok := PeerID(leaf)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: the certificate of %q is not a peer's", ErrNotPeer, leaf.Subject.CommonName)
	case cluster != s.cluster:
		return "", fmt.Errorf("%w: the certificate is the one of peer %s of cluster %s, this is cluster %s", ErrNotPeer, id, cluster, s.cluster)
	}
	return id, nil
}
