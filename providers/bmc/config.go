package bmc

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/providers/guard"
)

// Config is the configuration of the BMC half of a provider. Durations are in nanoseconds here, and
// texts like "30s" in JSON (ParseConfig).
type Config struct {
	Protocol    Protocol      // of machines whose endpoint and labels do not say; default Auto
	TLS         string        // "verify" (the default) or "insecure": the passwords of BMCs may then be had by who is in between
	CAFile      string        // certificates in PEM that BMCs are verified with; default those of the system
	AllowHTTP   bool          // Redfish without TLS, where the endpoint says http://: for labs
	Timeout     time.Duration // of one operation; default 60s
	RequestTime time.Duration // of one HTTP request; default 30s
	Idle        time.Duration // after which a session that is not used is ended; default 5m
	Settle      time.Duration // how long a press of a button may take to show; default 15s
	OpenTime    time.Duration // how long the circuit breaker stays open before it lets a probe through; default 30s
	Ipmitool    string        // path; default the one in PATH
	CommandTime time.Duration // after which ipmitool is killed; default 15s
	IPMIPort    string        // of endpoints that do not say ipmi://; default 623
	CipherSuite string        // of IPMI; default 17 (SHA-256), 3 is what old BMCs have. The label bmc-cipher-suite of a machine overrules it
	IPMIGap     time.Duration // least time between two IPMI commands to one BMC; the quirk table may say more
	RPCURL      string        // of a service that speaks bmclib's RPC, for machines at rpc://NAME: https://, or http:// with AllowHTTP
	AutoReset   bool          // a BMC that takes connections and does not answer is restarted without being asked for: see Facts.BMCStuck; default false
}

// CipherLabel is the label of a machine that overrules CipherSuite.
const CipherLabel = "bmc-cipher-suite"

func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Timeout, time.Minute)
	def(&c.RequestTime, 30*time.Second)
	def(&c.Idle, 5*time.Minute)
	def(&c.Settle, 15*time.Second)
	def(&c.OpenTime, 30*time.Second)
	def(&c.CommandTime, 15*time.Second)
	if c.Protocol == "" {
		c.Protocol = Auto
	}
	if c.CipherSuite == "" {
		c.CipherSuite = "17"
	}
	if c.IPMIPort == "" {
		c.IPMIPort = "623"
	}
	if c.Ipmitool == "" {
		c.Ipmitool = "ipmitool"
	}
	switch c.TLS {
	case "":
		c.TLS = "verify"
	case "verify", "insecure":
	default:
		return c, fmt.Errorf("tls is %q: it is verify or insecure", c.TLS)
	}
	if u, err := url.Parse(c.RPCURL); c.RPCURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !c.AllowHTTP)) {
		return c, fmt.Errorf("rpc_url %q is not an https:// URL (nor an http:// one with allow_http)", clip(c.RPCURL, 100))
	}
	if c.TLS == "insecure" && c.CAFile != "" {
		return c, errors.New("ca_file does not go with tls: insecure")
	}
	return c, c.Protocol.check()
}

// ParseConfig reads a configuration in JSON. An unknown key is an error that names it.
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
	if len(bytes.TrimSpace(raw)) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil {
			return Config{}, fmt.Errorf("read configuration: %w", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return Config{}, errors.New("read configuration: something follows it")
		}
	}
	return Config{Protocol: f.Protocol, TLS: f.TLS, CAFile: f.CAFile, AllowHTTP: f.AllowHTTP, Timeout: time.Duration(f.Timeout), RequestTime: time.Duration(f.RequestTime),
		Idle: time.Duration(f.Idle), Settle: time.Duration(f.Settle), OpenTime: time.Duration(f.OpenTime), Ipmitool: f.Ipmitool, CommandTime: time.Duration(f.CommandTime),
		IPMIPort: f.IPMIPort, CipherSuite: f.CipherSuite, IPMIGap: time.Duration(f.IPMIGap), AutoReset: f.AutoReset, RPCURL: f.RPCURL}.withDefaults()
}

// duration is a time.Duration that reads texts like "30s".
type duration time.Duration

// UnmarshalJSON reads "30s".
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

// tls reports how BMCs are verified.
func (c Config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.TLS == "insecure"} //nolint:gosec // the operator chose it, in words
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca_file: %s holds no certificate in PEM", c.CAFile)
		}
	}
	return t, nil
}

// newHTTP makes what the requests to one BMC are sent through: a connection or two, guarded by the
// not-after time.
func newHTTP(verify *tls.Config) *http.Client {
	return &http.Client{
		Transport: guard.Transport(&http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 15 * time.Second, // some need seconds for it
			MaxIdleConnsPerHost: 2,
			MaxConnsPerHost:     4,
			IdleConnTimeout:     time.Minute,
			TLSClientConfig:     verify.Clone(),
		}),
		// A redirect would take the session's token elsewhere; DSP0266 needs none of the requests
		// that we make to follow one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Deps are what a provider needs of others.
type Deps struct {
	Credentials Credentials
	Memory      Memory // nil: it ends with the process
	Log         *slog.Logger
	Called      func(Call) // of each operation that has ended, for who counts them; nil: nobody is told
}
