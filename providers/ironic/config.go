package ironic

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers/guard"
)

// Config is the configuration of a provider. Durations are texts like "30s" in JSON.
type Config struct {
	Endpoint       string `json:"endpoint"`        // of Ironic, e.g. https://ironic:6385; default, with keystone: what its catalog says
	Auth           string `json:"auth"`            // none (the default), http_basic or keystone
	CredentialsRef string `json:"credentials_ref"` // name of a secret of type opaque: username and password, or application_credential_id and application_credential_secret

	AuthURL       string `json:"auth_url"`       // of keystone, e.g. https://keystone:5000/v3
	UserDomain    string `json:"user_domain"`    // default Default
	Project       string `json:"project"`        // that the user works in; not with an application credential
	ProjectDomain string `json:"project_domain"` // default Default
	SystemScope   bool   `json:"system_scope"`   // instead of a project
	Region        string `json:"region"`         // of the catalog; default any
	Interface     string `json:"interface"`      // of the catalog: public (the default), internal or admin

	TLS    string `json:"tls"`     // verify (the default) or insecure
	CAFile string `json:"ca_file"` // certificates in PEM; default those of the system

	Images     map[string]Image `json:"images"`      // by the name that plans use
	CleanSteps []CleanStep      `json:"clean_steps"` // that wipe; default deploy.erase_devices
	BIOS       bool             `json:"bios"`        // nodes that do not say how they boot do so by BIOS, not UEFI

	Timeout     Duration `json:"timeout"`      // of one operation; default 60s
	RequestTime Duration `json:"request_time"` // of one HTTP request; default 30s
	LockTime    Duration `json:"lock_time"`    // how long to wait for a node that Ironic has locked; default 20s
	SoftOffTime Duration `json:"soft_off"`     // that Ironic gives an operating system to power off; default 50s, less than the executor's minute
	SettleTime  Duration `json:"settle"`       // how late an accepted request may show; default 15s
}

// Image is what instance_info says of an image.
type Image struct {
	Source     string `json:"source"` // URL, or id in Glance
	SHA256     string `json:"sha256"`
	SHA512     string `json:"sha512"`
	DiskFormat string `json:"disk_format"` // e.g. qcow2, raw
	Kernel     string `json:"kernel"`      // of partition images
	Ramdisk    string `json:"ramdisk"`
	RootGB     int    `json:"root_gb"`
}

// CleanStep is a step of manual cleaning.
type CleanStep struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Args      map[string]any `json:"args"`
}

// Duration is a time.Duration that is written as text, e.g. "15s".
type Duration time.Duration

// UnmarshalJSON reads "15s", and refuses what is not above zero.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`read duration %s: write it as text with a unit, e.g. "15s"`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 {
		return fmt.Errorf(`read duration %q: write a number above zero and a unit, e.g. "15s"`, s)
	}
	*d = Duration(v)
	return nil
}

// The kinds of authentication.
const (
	AuthNone     = "none"
	AuthBasic    = "http_basic"
	AuthKeystone = "keystone"
)

// ParseConfig reads a configuration strictly: an unknown key is an error that names it.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	if len(bytes.TrimSpace(raw)) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return Config{}, fmt.Errorf("read ironic configuration: %w", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return Config{}, errors.New("read ironic configuration: there is more than one value")
		}
	}
	return c, c.Validate()
}

// Validate reports what is wrong with a configuration, with the key, the value and what is allowed.
func (c Config) Validate() error {
	for key, value := range map[string]string{"endpoint": c.Endpoint, "auth_url": c.AuthURL} {
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
			return fmt.Errorf("%s is not an address such as https://ironic:6385 (names and passwords belong into a secret)", key) // it may hold one
		}
	}
	switch c.Auth {
	case "", AuthNone:
		if c.CredentialsRef != "" {
			return errors.New("credentials_ref does not go with auth: none; set auth to http_basic or keystone")
		}
	case AuthBasic, AuthKeystone:
		if c.CredentialsRef == "" {
			return fmt.Errorf("auth: %s needs credentials_ref, the name of a secret of type opaque", c.Auth)
		}
	default:
		return fmt.Errorf("auth is %q: it is none, http_basic or keystone", c.Auth)
	}
	if (c.Auth == AuthKeystone) != (c.AuthURL != "") {
		return errors.New("auth_url goes with auth: keystone, and only with that")
	}
	if c.Endpoint == "" && c.Auth != AuthKeystone {
		return errors.New("endpoint is missing: the address of Ironic, e.g. https://ironic:6385")
	}
	if c.SystemScope && c.Project != "" {
		return errors.New("system_scope does not go with project")
	}
	switch c.Interface {
	case "", "public", "internal", "admin":
	default:
		return fmt.Errorf("interface is %q: it is public, internal or admin", c.Interface)
	}
	switch c.TLS {
	case "", "verify", "insecure":
	default:
		return fmt.Errorf("tls is %q: it is verify or insecure", c.TLS)
	}
	if c.TLS == "insecure" && c.CAFile != "" {
		return errors.New("ca_file does not go with tls: insecure")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		if c.Images[name].Source == "" {
			return fmt.Errorf("images: %s has no source", name)
		}
	}
	for _, s := range c.CleanSteps {
		if s.Interface == "" || s.Step == "" {
			return errors.New("clean_steps: each wants an interface and a step, e.g. {interface: deploy, step: erase_devices}")
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	text := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	span := func(d *Duration, v time.Duration) {
		if *d <= 0 {
			*d = Duration(v)
		}
	}
	text(&c.Auth, AuthNone)
	text(&c.UserDomain, "Default")
	text(&c.ProjectDomain, "Default")
	text(&c.Interface, "public")
	span(&c.Timeout, time.Minute)
	span(&c.RequestTime, 30*time.Second)
	span(&c.LockTime, 20*time.Second)
	span(&c.SoftOffTime, 50*time.Second)
	span(&c.SettleTime, 15*time.Second)
	if len(c.CleanSteps) == 0 {
		c.CleanSteps = []CleanStep{{Interface: "deploy", Step: "erase_devices"}}
	}
	return c
}

// image returns what instance_info has to say of an image that a plan names: one of the
// configuration, or else a URL.
func (c Config) image(name string) (Image, error) {
	if i, ok := c.Images[name]; ok {
		return i, nil
	}
	if strings.Contains(name, "://") {
		return Image{Source: name}, nil
	}
	return Image{}, fmt.Errorf("image %q is not among the images of the provider (%s), and is no URL", name, strings.Join(slices.Sorted(maps.Keys(c.Images)), ", "))
}

// maxBody bounds an answer, in bytes.
const maxBody = 8 << 20

// http makes what requests are sent through, guarded by the not-after time.
func (c Config) http() (*http.Client, error) {
	verify := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.TLS == "insecure"} //nolint:gosec // the operator chose it, in words
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		verify.RootCAs = x509.NewCertPool()
		if !verify.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca_file: %s holds no certificate in PEM", c.CAFile)
		}
	}
	return &http.Client{
		Timeout: time.Duration(c.RequestTime),
		Transport: bounded{guard.Transport(&http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 16, // one Ironic has many nodes
			IdleConnTimeout:     time.Minute,
			TLSClientConfig:     verify,
		})},
		// A redirect would take the login elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// bounded reads no more of an answer than maxBody: gophercloud reads all there is.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxBody), res.Body}
	}
	return res, err
}
