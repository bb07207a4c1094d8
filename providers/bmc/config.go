package bmc

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/ipmi"
	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// Config is the configuration of the BMC part of a provider. In JSON, durations are strings such as
// "30s" (ParseConfig).
type Config struct {
	Protocol    Protocol      // if neither endpoint nor labels name one; default Auto
	TLS         string        // "verify" (default), or "insecure", which exposes BMC passwords
	CAFile      string        // PEM certificates to verify BMCs with; default: the system's
	AllowHTTP   bool          // allow Redfish without TLS for endpoints with http://: for labs
	Timeout     time.Duration // of one operation; default 60s
	RequestTime time.Duration // of one HTTP request; default 30s
	Idle        time.Duration // an unused session is ended after it; default 5m
	Settle      time.Duration // until a press of a button shows; default 15s
	OpenTime    time.Duration // the circuit breaker is open before the next probe; default 30s
	Ipmitool    string        // path; default: the one in PATH
	CommandTime time.Duration // ipmitool is killed after it; default 15s
	IPMIPort    string        // of endpoints without ipmi://; default 623
	CipherSuite string        // of IPMI; default 17 (SHA-256), old BMCs need 3. See CipherLabel
	IPMIGap     time.Duration // minimum pause between IPMI commands; a quirk may extend it
	RPCURL      string        // of a bmclib RPC service, for rpc://NAME: https://, or http:// with AllowHTTP
	AutoReset   bool          // reset a stuck BMC automatically (Facts.BMCStuck); default false
}

// CipherLabel is the label of a machine that overrides CipherSuite.
const CipherLabel = ipmi.CipherLabel

func (c Config) withDefaults() (Config, error) {
	settings.Default(&c.Timeout, time.Minute)
	settings.Default(&c.RequestTime, 30*time.Second)
	settings.Default(&c.Idle, 5*time.Minute)
	settings.Default(&c.Settle, 15*time.Second)
	settings.Default(&c.OpenTime, 30*time.Second)
	settings.Default(&c.CommandTime, 15*time.Second)
	c.Protocol = cmp.Or(c.Protocol, Auto)
	c.CipherSuite = cmp.Or(c.CipherSuite, "17")
	c.IPMIPort = cmp.Or(c.IPMIPort, "623")
	c.Ipmitool = cmp.Or(c.Ipmitool, "ipmitool")
	c.TLS = cmp.Or(c.TLS, "verify")
	if err := settings.CheckTLS(c.TLS, c.CAFile); err != nil {
		return c, err
	}
	if c.RPCURL != "" && !c.validRPC() {
		return c, fmt.Errorf("rpc_url %q is not an https:// URL (nor an http:// one with allow_http)",
			access.Clip(c.RPCURL, 100))
	}
	return c, c.Protocol.check()
}

func (c Config) validRPC() bool {
	u, err := url.Parse(c.RPCURL)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && c.AllowHTTP)
}

// ParseConfig parses a configuration in JSON. The error for an unknown key names the key.
func ParseConfig(raw []byte) (Config, error) {
	var f struct {
		Protocol    Protocol `json:"protocol"`
		TLS         string   `json:"tls"`
		CAFile      string   `json:"ca_file"`
		AllowHTTP   bool     `json:"allow_http"`
		Timeout     duration `json:"timeout"`
		RequestTime duration `json:"request_time"`
		Idle        duration `json:"idle"`
		Settle      duration `json:"settle"`
		OpenTime    duration `json:"open_time"`
		Ipmitool    string   `json:"ipmitool"`
		CommandTime duration `json:"command_time"`
		IPMIPort    string   `json:"ipmi_port"`
		CipherSuite string   `json:"cipher_suite"`
		IPMIGap     duration `json:"ipmi_gap"`
		AutoReset   bool     `json:"auto_reset"`
		RPCURL      string   `json:"rpc_url"`
	}
	if err := settings.Read(raw, &f); err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Config{
		Protocol:    f.Protocol,
		TLS:         f.TLS,
		CAFile:      f.CAFile,
		AllowHTTP:   f.AllowHTTP,
		Timeout:     time.Duration(f.Timeout),
		RequestTime: time.Duration(f.RequestTime),
		Idle:        time.Duration(f.Idle),
		Settle:      time.Duration(f.Settle),
		OpenTime:    time.Duration(f.OpenTime),
		Ipmitool:    f.Ipmitool,
		CommandTime: time.Duration(f.CommandTime),
		IPMIPort:    f.IPMIPort,
		CipherSuite: f.CipherSuite,
		IPMIGap:     time.Duration(f.IPMIGap),
		AutoReset:   f.AutoReset,
		RPCURL:      f.RPCURL,
	}.withDefaults()
}

// duration is a time.Duration that is written like "30s" in JSON.
type duration time.Duration

// UnmarshalJSON parses a duration like "30s".
func (d *duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`%s is not a duration like "30s"`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf(`%q is not a duration like "30s"`, s)
	}
	*d = duration(v)
	return nil
}

// newHTTP returns the HTTP client for one BMC. It uses few connections and enforces the not-after
// time.
func newHTTP(verify *tls.Config) *http.Client {
	return &http.Client{
		Transport: guard.Transport(&http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 15 * time.Second, // some BMCs need seconds
			MaxIdleConnsPerHost: 2,
			MaxConnsPerHost:     4,
			IdleConnTimeout:     time.Minute,
			TLSClientConfig:     verify.Clone(),
		}),
		// A redirect would send the session's token elsewhere. DSP0266 does not require following
		// one for any of our requests.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Deps are the dependencies of a provider.
type Deps struct {
	Credentials Credentials
	Memory      Memory // nil: kept in this process only
	Log         *slog.Logger
	Called      func(Call) // called after each operation, for metrics; may be nil
}

// Account is a user of a BMC. It is printed without its password.
type Account = access.Account

// Credentials finds the account of a machine's BMC by Machine.spec.bmc_credentials_ref.
type Credentials interface {
	// Account is called before each login to a BMC. Its errors contain no secret.
	Account(ctx context.Context, m providers.Machine) (Account, error)
}
