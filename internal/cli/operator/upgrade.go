package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func operatorUpgrade(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:     "upgrade",
		Short:   "Upgrade peers to another build",
		Example: "  holdfast operator upgrade check",
	}, upgradeCheck(a))
}

func upgradeCheck(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "check", Args: app.Exactly(),
		Short: "Check whether a peer may be upgraded to this build now (exit code 7 if not)",
		Long: `Check whether a peer may be stopped and upgraded to the build of this command now: there is a leader, all peers are healthy, one may
fail, and this build understands everything that the cluster uses. Run it with the new binary before each peer. It shows the version
of each peer and the remaining work. Features of the new build are used only once all peers have it.`,
		Example: `  ./holdfast-new operator upgrade check
  ./holdfast-new operator upgrade check && systemctl restart holdfast`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := kinds.GetClusterStatus(ctx, c)
			if err != nil {
				return err
			}
			return printUpgrade(a, &o, s, app.ThisBuild(a.Version).Version, fsm.FeatureLevel)
		}),
	}
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "print no header")
	return cmd
}

// printUpgrade prints the versions of the peers and the next step, and returns an error if the
// upgrade must wait.
func printUpgrade(a *app.App, o *output.Flags, s *holdfastv1.ClusterStatus, version string, level uint32) error {
	if _, err := fmt.Fprintf(a.Out, "this build: %s, level %d; the cluster uses level %d\n", version, level,
		s.GetFeatureLevel()); err != nil {
		return err
	}
	if err := kinds.VersionTable(a, o, s); err != nil {
		return err
	}
	if why := noUpgrade(s, level); why != "" {
		return app.Exitf(app.ExitUnavailable, "no upgrade now: %s", why)
	}
	_, err := fmt.Fprintln(a.Out, "\n"+nextUpgrade(s, version))
	return err
}

// noUpgrade returns the reason why no peer may be upgraded to a build of this level now, or "".
func noUpgrade(s *holdfastv1.ClusterStatus, level uint32) string {
	if level < s.GetFeatureLevel() {
		return fmt.Sprintf("this build understands level %d, the cluster uses %d: it is too old", level,
			s.GetFeatureLevel())
	}
	for _, p := range s.GetPeers() {
		if t := kinds.Trouble(p); t != "" {
			return fmt.Sprintf("peer %s: %s", p.GetId(), t)
		}
	}
	return kinds.Unsafe(s)
}

// nextUpgrade lists the peers to upgrade, the leader last.
func nextUpgrade(s *holdfastv1.ClusterStatus, version string) string {
	var left []string
	leads := false
	for _, p := range s.GetPeers() {
		switch {
		case p.GetVersion() == version:
		case p.GetId() == s.GetLeader():
			leads = true
		default:
			left = append(left, p.GetId())
		}
	}
	if leads {
		left = append(left, s.GetLeader()+" (leads: it hands over when it stops)")
	}
	if len(left) == 0 {
		return "all peers run this build"
	}
	return "one at a time, the leader last: " + strings.Join(left, ", ")
}
