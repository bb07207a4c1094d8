// Package peercert owns the settings with which peers renew their certificates: the CA for peers
// only, and how long its certificates last (docs/security.md).
//
// It must not decide which peer gets a certificate: package cluster does.
package peercert

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Config names the CA that signs renewed certificates of peers. Without one nothing is renewed.
type Config struct {
	CA, Key string
	Days    int
	Life    time.Duration // instead of Days; hidden, for tests
}

const (
	defaultDays = 7
	leastDays   = 3 // connections last a day, and a renewal may fail for a night
	mostDays    = 90
)

// Flags declares the settings.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.CA, "tls-peer-ca", "",
		"`file` with the certificate of the CA for peers only, PEM: this peer then renews its certificate (see: holdfast tls "+
			"init --renew); more certificates in the file are accepted too")
	fs.StringVar(&c.Key, "tls-peer-ca-key", "", "`file` with its key, PEM, not readable by others")
	fs.IntVar(&c.Days, "tls-peer-days", defaultDays, "validity of renewed certificates of peers, in `days`")
	fs.DurationVar(&c.Life, "tls-peer-life", 0, "`time` instead of --tls-peer-days")
	_ = fs.MarkHidden("tls-peer-life") // fails for unknown flags only
}

// Lasts returns how long a renewed certificate lasts.
func (c *Config) Lasts() time.Duration { return cmp.Or(c.Life, time.Duration(c.Days)*24*time.Hour) }

// Check returns an error for settings that do not fit.
func (c *Config) Check(insecure bool) error {
	switch {
	case (c.CA == "") != (c.Key == ""):
		return errors.New("set both --tls-peer-ca and --tls-peer-ca-key, or neither: peers sign the certificates of each " +
			"other (made by: holdfast tls init --renew, or holdfast tls ca peers)")
	case c.CA != "" && insecure:
		return errors.New("leave out --insecure or --dev, or --tls-peer-ca: both mean no TLS")
	case c.Days < leastDays || c.Days > mostDays:
		return fmt.Errorf("set --tls-peer-days to %d to %d, not %d", leastDays, mostDays, c.Days)
	}
	return nil
}
