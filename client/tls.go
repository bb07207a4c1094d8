package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// LoadTLS returns the TLS configuration of a client. All files are PEM. The file ca has the
// cluster's CA certificates; if empty, those of the system are used. The files cert and key
// have a client certificate; both may be empty. The certificate is read again for each
// connection, so a replaced one is used without a restart.
func LoadTLS(ca, cert, key string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read CA certificates: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA certificates: %s: no PEM certificate found", ca)
		}
	}
	if cert == "" && key == "" {
		return cfg, nil
	}
	first, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read client certificate (%s, key %s): %w", cert, key, err)
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if now, err := tls.LoadX509KeyPair(cert, key); err == nil {
			return &now, nil
		}
		return &first, nil // while the files are being replaced
	}
	return cfg, nil
}

// bearer sends the token with each call. Config refuses a token without TLS for any address
// that is not loopback.
type bearer struct {
	tokens func(context.Context) (string, error)
	tls    bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.tokens(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return b.tls }
