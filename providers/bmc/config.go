package bmc

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/ipmi"
	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/settings"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Config is the configuration of the BMC part of a provider. In JSON, durations are strings such as
// "30s" (ParseConfig).
type Config struct {
	Protocol  Protocol `json:"protocol"`   // if neither endpoint nor labels name one; default Auto
	TLS       string   `json:"tls"`        // "verify" (default), or "insecure", which exposes BMC passwords
	CAFile    string   `json:"ca_file"`    // PEM certificates to verify BMCs with; default: the system's
	AllowHTTP bool     `json:"allow_http"` // allow Redfish without TLS for endpoints with http://: for labs

	Timeout     time.Duration `json:"-"` // of one operation; default 60s
	RequestTime time.Duration `json:"-"` // of one HTTP request; default 30s
	Idle        time.Duration `json:"-"` // an unused session is ended after it; default 5m
	Settle      time.Duration `json:"-"` // until a press of a button shows; default 15s
	OpenTime    time.Duration `json:"-"` // the circuit breaker is open before the next probe; default 30s
	CommandTime time.Duration `json:"-"` // ipmitool is killed after it; default 15s
	IPMIGap     time.Duration `json:"-"` // minimum pause between IPMI commands; a quirk may extend it

	Ipmitool    string `json:"ipmitool"`     // path; default: the one in PATH
	IPMIPort    string `json:"ipmi_port"`    // of endpoints without ipmi://; default 623
	CipherSuite string `json:"cipher_suite"` // of IPMI; default 17 (SHA-256), old BMCs need 3. See CipherLabel
	// RPCURL is the URL of a bmclib RPC service, for rpc://NAME: https://, or http:// with
	// AllowHTTP.
	RPCURL    string `json:"rpc_url"`
	AutoReset bool   `json:"auto_reset"` // reset a silent BMC automatically (Facts.BMCSilent); default false
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
			text.Clip(c.RPCURL, 100))
	}
	return c, c.Protocol.check()
}

func (c Config) validRPC() bool {
	u, err := url.Parse(c.RPCURL)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && c.AllowHTTP)
}

// ParseConfig parses a configuration in JSON. The error for an unknown key names the key.
func ParseConfig(raw []byte) (Config, error) {
	type duration = settings.OptionalDuration
	var c Config
	keys := struct {
		*Config
		Timeout     *duration `json:"timeout"`
		RequestTime *duration `json:"request_time"`
		Idle        *duration `json:"idle"`
		Settle      *duration `json:"settle"`
		OpenTime    *duration `json:"open_time"`
		CommandTime *duration `json:"command_time"`
		IPMIGap     *duration `json:"ipmi_gap"`
	}{
		&c,
		(*duration)(&c.Timeout),
		(*duration)(&c.RequestTime),
		(*duration)(&c.Idle),
		(*duration)(&c.Settle),
		(*duration)(&c.OpenTime),
		(*duration)(&c.CommandTime),
		(*duration)(&c.IPMIGap),
	}
	if err := settings.Read(raw, &keys); err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return c.withDefaults()
}

// newHTTP returns the HTTP client for one BMC. It uses few connections and enforces the not-after
// time. DSP0266 does not require following a redirect for any of our requests.
func newHTTP(verify *tls.Config) *http.Client {
	return guard.Client(&http.Transport{
		TLSHandshakeTimeout: 15 * time.Second, // some BMCs need seconds
		MaxIdleConnsPerHost: 2,
		MaxConnsPerHost:     4,
		IdleConnTimeout:     time.Minute,
		TLSClientConfig:     verify.Clone(),
	})
}

// Deps are the dependencies of a provider.
type Deps struct {
	Credentials Credentials
	Memory      Memory // nil: kept in this process only
	Log         *slog.Logger
	Called      func(Call)       // called after each operation, for metrics; may be nil
	Now         func() time.Time // dates memos, which later leaders read. Default time.Now
	SkipFiles   bool             // read no ca_file: the configuration is checked, not used
}

// Account is a user of a BMC. It is printed without its password.
type Account = access.Account

// Credentials finds the account of a machine's BMC by Machine.spec.bmc_credentials_ref.
type Credentials interface {
	// Account is called before each login to a BMC. Its errors contain no secret.
	Account(ctx context.Context, m providers.Machine) (Account, error)
}
