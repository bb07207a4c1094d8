package harness

import (
	"context"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
)

// bmcCount is the number of BMCs: one less than it takes to hold a plan (docs/concepts.md),
// because they misbehave in the same ways.
const bmcCount = 4

// openSite starts BMCs and a host in addition to the fake hardware, and configures the
// peers for them.
func (c *Cluster) openSite(ctx context.Context, host string, cfg Config, local *localcluster.Config) error {
	if cfg.BMCServer == "" {
		return nil
	}
	s, err := site.Start(ctx,
		site.Config{BMCServer: cfg.BMCServer, Dir: filepath.Join(cfg.Dir, "site"), Host: host, BMCs: bmcCount, SSH: true})
	if err != nil {
		return err
	}
	c.Site = s
	if s.Without != "" {
		c.Log.Warn("NOT TESTED: commands on a real host", "reason", s.Without)
	}
	local.Providers = s.Providers()
	return nil
}
