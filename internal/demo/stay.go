package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// finish prints the report for people, and as JSON if it was requested.
func (c *console) finish(r *report) error {
	c.print(summary(r, c.glyphs)...)
	if c.json {
		return r.write(c.out)
	}
	return nil
}

// logs prints the ends of the logs of the peers in a diedError.
func (c *console) logs(err error) {
	var died *diedError
	if !errors.As(err, &died) {
		return
	}
	var lines []string
	for _, p := range died.peers {
		lines = append(lines, fmt.Sprintf("the end of the log of %s:", p.ID))
		text := strings.TrimRight(p.LogTail(2000), "\n")
		if text == "" {
			text = "(empty)"
		}
		for l := range strings.SplitSeq(text, "\n") {
			lines = append(lines, "  "+render.Clean(l))
		}
	}
	_, _ = fmt.Fprintln(c.err, strings.Join(lines, "\n")) // there is no other output for an error
}

// stay keeps the cluster up until ctx ends, and prints how to use it.
func (s *story) stay(ctx context.Context, binary string, c *console) {
	c.println(s.invitation(binary, onPath(binary), s.pass(ctx))...)
	if err := s.watchPeers(ctx); err != nil {
		c.logs(err)
		c.println(err.Error(), "Ctrl-C stops the other peers.")
		<-ctx.Done()
	}
	c.println("", "stopping")
}

// onPath reports whether the command "holdfast" runs this executable.
func onPath(binary string) bool {
	found, err := exec.LookPath("holdfast")
	if err != nil {
		return false
	}
	a, errA := os.Stat(found)
	b, errB := os.Stat(binary)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// pass returns a token for the dashboard. It returns "" if none is needed or it could not be
// created.
func (s *story) pass(ctx context.Context) string {
	if s.cluster.Files() == nil {
		return ""
	}
	t, err := s.client.Access().CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "demo",
		Role: holdfastv1.Role_ADMIN, TtlSeconds: 24 * 3600, Comment: "for the dashboard of the demo"})
	if err != nil {
		return ""
	}
	return t.GetSecret()
}

// invitation returns the lines that explain how to use the cluster.
func (s *story) invitation(binary string, onPath bool, token string) []string {
	lines := []string{"", "  Three peers are up, and stay up until Ctrl-C:", "",
		"    the dashboard, on each of them:  " + s.cluster.Peers()[0].URL("/ui/")}
	if token != "" {
		lines = append(lines, "    sign in with the token           "+token,
			"    (the browser warns: the certificate is of the demo's own CA, "+s.cluster.Files().CA+")")
	}
	lines = append(lines, "")
	for _, p := range s.cluster.Peers() {
		lines = append(lines, fmt.Sprintf("    %s  gRPC %s  %s", p.ID, p.GRPCAddr, p.URL("/metrics")))
	}
	lines = append(lines, fmt.Sprintf("    effects counted by the fake hardware: %s/effects", s.hardware.url()), "",
		"  In another terminal:", "")
	if !onPath {
		lines = append(lines, "    alias holdfast="+binary)
	}
	lines = append(lines,
		"    export HOLDFAST_ADDR="+strings.Join(s.cluster.Addrs(), ","))
	ask := "curl -s "
	if f := s.cluster.Files(); f != nil {
		lines = append(lines, fmt.Sprintf("    export HOLDFAST_CA=%s HOLDFAST_CERT=%s HOLDFAST_KEY=%s", f.CA,
			f.AdminCert, f.AdminKey))
		ask += "--cacert $HOLDFAST_CA --cert $HOLDFAST_CERT --key $HOLDFAST_KEY "
	}
	lines = append(lines,
		"    holdfast cluster status",
		"    holdfast machine list",
		"    holdfast run list",
		"    holdfast run start "+s.machines[0].GetMachineId()+" --type REBOOT --wait",
		"    "+ask+s.cluster.Peers()[0].URL("/readyz"),
	)
	return append(lines, "")
}
