package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
)

// Handshakes are never resumed, so each one is checked against the current certificate
// files.

// PeerServer returns the configuration of a listener for peers only (Raft). It requires TLS
// 1.3 and certificates from both sides.
func (s *Store) PeerServer() *tls.Config {
	return s.server(tls.VersionTLS13, tls.RequireAnyClientCert, nil, func(leaf *x509.Certificate) error {
		_, err := s.peer(leaf)
		return err
	})
}

// PeerClient returns the configuration for connections to another peer. ids are the allowed
// peers; without any, every peer of this cluster is allowed. The peer's identity comes from
// its certificate. Host names and addresses are not checked.
func (s *Store) PeerClient(ids ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			// Present it even if the server accepts only CAs that we no longer use: its error
			// names the cause.
			return &s.current().pair, nil
		},
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection verifies the peer id instead of the host name
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return errors.New("the server has no certificate")
			}
			leaf := cs.PeerCertificates[0]
			between := cs.PeerCertificates[1:]
			if err := s.current().verify(leaf, between, x509.ExtKeyUsageServerAuth, s.cfg.Now()); err != nil {
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

// PeerCredentials returns the credentials for gRPC connections to the peer id.
func (s *Store) PeerCredentials(id string) credentials.TransportCredentials {
	return credentials.NewTLS(s.PeerClient(id))
}

// API returns the configuration of the gRPC listener. Client certificates are optional but
// must be valid.
func (s *Store) API() *tls.Config { return s.public("h2") }

// HTTP returns the configuration of the HTTP listener: like API, but for HTTP/2 and
// HTTP/1.1.
func (s *Store) HTTP() *tls.Config { return s.public("h2", "http/1.1") }

func (s *Store) public(protos ...string) *tls.Config {
	return s.server(tls.VersionTLS12, tls.RequestClientCert, protos, func(leaf *x509.Certificate) error {
		if !claimsPeer(leaf) {
			return nil
		}
		_, err := s.peer(leaf)
		return err
	})
}

// server returns the configuration of a listener. check validates the client's verified
// certificate. VerifyConnection verifies each certificate instead of crypto/tls, which would also
// refuse one that has not begun.
func (s *Store) server(
	least uint16,
	auth tls.ClientAuthType,
	protos []string,
	check func(*x509.Certificate) error,
) *tls.Config {
	return &tls.Config{
		MinVersion: least, NextProtos: protos, SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current()
			return &tls.Config{
				MinVersion: least, NextProtos: protos, SessionTicketsDisabled: true,
				Certificates: []tls.Certificate{m.pair}, ClientCAs: m.roots, ClientAuth: auth,
				VerifyConnection: func(cs tls.ConnectionState) error {
					if len(cs.PeerCertificates) == 0 {
						return nil // ClientAuth has checked that
					}
					leaf := cs.PeerCertificates[0]
					err := m.verify(leaf, cs.PeerCertificates[1:], x509.ExtKeyUsageClientAuth, s.cfg.Now())
					if err != nil {
						return err
					}
					if err := check(leaf); err != nil {
						return err
					}
					Bound(hello.Conn, s.End(leaf))
					verified(hello.Conn)
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
		return "", fmt.Errorf("%w: the certificate belongs to peer %s of cluster %s, but this is cluster %s",
			ErrNotPeer, id, cluster, s.cluster)
	}
	return id, nil
}
