package ironic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// Config is the configuration of a provider. In JSON, durations are strings like "30s".
type Config struct {
	Endpoint string `json:"endpoint"` // of Ironic, e.g. https://ironic:6385; default: from keystone's catalog
	Auth     string `json:"auth"`     // none (the default), http_basic or keystone
	// CredentialsRef is the name of a secret of type opaque, with username and password, or
	// application_credential_id and application_credential_secret.
	CredentialsRef string `json:"credentials_ref"`

	AuthURL       string `json:"auth_url"`       // of keystone, e.g. https://keystone:5000/v3
	UserDomain    string `json:"user_domain"`    // default Default
	Project       string `json:"project"`        // of the user; not with an application credential
	ProjectDomain string `json:"project_domain"` // default Default
	SystemScope   bool   `json:"system_scope"`   // instead of a project
	Region        string `json:"region"`         // of the catalog; default any
	Interface     string `json:"interface"`      // of the catalog: public (the default), internal or admin

	TLS    string `json:"tls"`     // verify (the default) or insecure
	CAFile string `json:"ca_file"` // certificates in PEM; default those of the system

	Images     map[string]Image `json:"images"`      // by their names in plans
	CleanSteps []CleanStep      `json:"clean_steps"` // for wiping; default deploy.erase_devices
	BIOS       bool             `json:"bios"`        // nodes without a boot mode boot by BIOS, not UEFI

	Timeout     Duration `json:"timeout"`      // of one operation; default 60s
	RequestTime Duration `json:"request_time"` // of one HTTP request; default 30s
	LockTime    Duration `json:"lock_time"`    // to wait for a node that Ironic has locked; default 20s
	SoftOffTime Duration `json:"soft_off"`     // for an orderly shutdown; default 50s, below the executor's minute
	SettleTime  Duration `json:"settle"`       // until an accepted request shows; default 15s
}

// Image has the values of instance_info for an image.
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

// Duration is a time.Duration that is written as a string in JSON, e.g. "15s".
type Duration = settings.Duration

// The kinds of authentication.
const (
	AuthNone     = "none"
	AuthBasic    = "http_basic"
	AuthKeystone = "keystone"
)

// ParseConfig parses a configuration. The error for an unknown key names the key.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	if err := settings.Read(raw, &c); err != nil {
		return Config{}, fmt.Errorf("read ironic configuration: %w", err)
	}
	return c, c.Validate()
}

// Validate returns an error that names the wrong key, its value and the allowed values.
func (c Config) Validate() error {
	for key, value := range map[string]string{"endpoint": c.Endpoint, "auth_url": c.AuthURL} {
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.RawQuery != "" || u.User != nil {
			// The value is not shown, because it may contain a password.
			return fmt.Errorf("%s is not an address such as https://ironic:6385 "+
				"(use a secret for user names and passwords)", key)
		}
	}
	switch c.Auth {
	case "", AuthNone:
		if c.CredentialsRef != "" {
			return errors.New("credentials_ref has no effect with auth: none: set auth to http_basic or keystone")
		}
	case AuthBasic, AuthKeystone:
		if c.CredentialsRef == "" {
			return fmt.Errorf("auth: %s needs credentials_ref, the name of a secret of type opaque", c.Auth)
		}
	default:
		return fmt.Errorf("auth is %q: want none, http_basic or keystone", c.Auth)
	}
	if (c.Auth == AuthKeystone) != (c.AuthURL != "") {
		return errors.New("auth_url is needed for auth: keystone, and only allowed with it")
	}
	if c.Endpoint == "" && c.Auth != AuthKeystone {
		return errors.New("endpoint is missing: the address of Ironic, e.g. https://ironic:6385")
	}
	if c.SystemScope && c.Project != "" {
		return errors.New("system_scope and project exclude each other: remove one of them")
	}
	switch c.Interface {
	case "", "public", "internal", "admin":
	default:
		return fmt.Errorf("interface is %q: want public, internal or admin", c.Interface)
	}
	if err := settings.CheckTLS(c.TLS, c.CAFile); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		if c.Images[name].Source == "" {
			return fmt.Errorf("images: %s has no source", name)
		}
	}
	for _, s := range c.CleanSteps {
		if s.Interface == "" || s.Step == "" {
			return errors.New("clean_steps: each needs an interface and a step, " +
				"e.g. {interface: deploy, step: erase_devices}")
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Auth = cmp.Or(c.Auth, AuthNone)
	c.UserDomain = cmp.Or(c.UserDomain, "Default")
	c.ProjectDomain = cmp.Or(c.ProjectDomain, "Default")
	c.Interface = cmp.Or(c.Interface, "public")
	settings.Default(&c.Timeout, time.Minute)
	settings.Default(&c.RequestTime, 30*time.Second)
	settings.Default(&c.LockTime, 20*time.Second)
	settings.Default(&c.SoftOffTime, 50*time.Second)
	settings.Default(&c.SettleTime, 15*time.Second)
	if len(c.CleanSteps) == 0 {
		c.CleanSteps = []CleanStep{{Interface: "deploy", Step: "erase_devices"}}
	}
	return c
}

// image returns the values of instance_info for an image that a plan names: an image of the
// configuration, or else a URL.
func (c Config) image(name string) (Image, error) {
	if i, ok := c.Images[name]; ok {
		return i, nil
	}
	if strings.Contains(name, "://") {
		return Image{Source: name}, nil
	}
	return Image{}, fmt.Errorf("image %q is neither one of the provider's images (%s) nor a URL",
		name, strings.Join(slices.Sorted(maps.Keys(c.Images)), ", "))
}

// maxBody bounds a response, in bytes.
const maxBody = 8 << 20

// http returns the HTTP client for requests. It enforces the not-after time.
func (c Config) http(skipFile bool) (*http.Client, error) {
	verify, err := settings.TLS(c.TLS, c.CAFile, skipFile)
	if err != nil {
		return nil, err
	}
	client := guard.Client(&http.Transport{
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 16, // one Ironic has many nodes
		IdleConnTimeout:     time.Minute,
		TLSClientConfig:     verify,
	})
	client.Timeout = time.Duration(c.RequestTime)
	client.Transport = bounded{client.Transport}
	return client, nil
}

// bounded limits response bodies to maxBody, because gophercloud reads them without a limit.
type bounded struct{ next http.RoundTripper }

// CloseIdleConnections implements the optional interface that http.Client uses.
func (b bounded) CloseIdleConnections() {
	(&http.Client{Transport: b.next}).CloseIdleConnections()
}

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
