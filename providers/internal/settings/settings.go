// Package settings reads the parts of a configuration that several kinds of providers share: strict
// JSON, durations as text, and the verification of TLS servers. It owns their form and their
// errors. It must not know the keys of a kind.
package settings

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// Read decodes one JSON value. An empty text leaves v unchanged. The error for an unknown key
// begins with `unknown key "NAME"`.
func Read(raw []byte, v any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New(misfit.Struct(err, v))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// Duration is a time.Duration that is written as a string in JSON, e.g. "15s". It is above zero.
type Duration time.Duration

// UnmarshalJSON parses "15s".
func (d *Duration) UnmarshalJSON(b []byte) error {
	v, err := parseDuration(b)
	if err == nil && v == 0 {
		err = fmt.Errorf(`read duration %s: write a number above zero and a unit, e.g. "15s"`, b)
	}
	*d = Duration(v)
	return err
}

// OptionalDuration is a Duration that may also be zero.
type OptionalDuration time.Duration

// UnmarshalJSON parses "15s" or "0s".
func (d *OptionalDuration) UnmarshalJSON(b []byte) error {
	v, err := parseDuration(b)
	*d = OptionalDuration(v)
	return err
}

func parseDuration(b []byte) (time.Duration, error) {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return 0, fmt.Errorf(`read duration %s: write it as text with a unit, e.g. "15s"`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`read duration %q: write it as a number and a unit, e.g. "15s"`, s)
	}
	if v < 0 {
		return 0, fmt.Errorf("read duration %q: it must not be negative", s)
	}
	return v, nil
}

// Default sets a value that is not configured.
func Default[T ~int64](value *T, to time.Duration) {
	if *value <= 0 {
		*value = T(to)
	}
}

// CheckTLS returns an error if tls and ca_file exclude each other or are unknown.
func CheckTLS(mode, caFile string) error {
	switch mode {
	case "", "verify", "insecure":
	default:
		return fmt.Errorf("tls is %q: want verify or insecure", mode)
	}
	if mode == "insecure" && caFile != "" {
		return errors.New("ca_file has no effect with tls: insecure: remove one of them")
	}
	return nil
}

// TLS returns the configuration of connections to servers. mode and caFile are the values of tls
// and ca_file. skipFile leaves the file out, to check a configuration of another host.
func TLS(mode, caFile string, skipFile bool) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: mode == "insecure", //nolint:gosec // the operator configured it explicitly
	}
	if caFile != "" && !skipFile {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca_file: %s has no PEM certificate", caFile)
		}
	}
	return c, nil
}
