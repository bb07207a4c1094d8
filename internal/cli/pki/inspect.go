package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

func inspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect FILE", DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "want one FILE")
			}
			return nil
		},
		Short:   "Show the subjects and expiry of certificates in a file",
		Example: "  holdfast tls inspect /etc/holdfast/n1.pem\n  holdfast tls inspect ca.pem",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := keyfile.Read(args[0])
			if err != nil {
				return err
			}
			certs, err := peertls.ParseCerts(b)
			if err != nil {
				return fmt.Errorf("inspect %s: %w", args[0], err)
			}
			for i, c := range certs {
				if i > 0 {
					cmd.Println()
				}
				show(cmd.OutOrStdout(), c, time.Now())
			}
			return nil
		},
	}
}

// show prints one certificate.
func show(w io.Writer, c *x509.Certificate, now time.Time) {
	row := func(name, value string) { _, _ = fmt.Fprintf(w, "%-9s %s\n", name, value) } // a closed pipe: nobody to tell
	row("kind", kind(c))
	var hosts []string
	hosts = append(hosts, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	if len(hosts) > 0 {
		row("hosts", strings.Join(hosts, ", "))
	}
	for _, u := range c.URIs {
		row("uri", printable(u.String()))
	}
	left := fmt.Sprintf("%d days left", int(c.NotAfter.Sub(now)/(24*time.Hour)))
	switch {
	case now.After(c.NotAfter):
		left = "it has ended"
	case now.Before(c.NotBefore):
		left = "it has not begun"
	}
	row("valid", fmt.Sprintf("%s to %s, %s", c.NotBefore.UTC().Format(time.RFC3339),
		c.NotAfter.UTC().Format(time.RFC3339), left))
	row("issuer", printable(c.Issuer.CommonName))
	row("serial", c.SerialNumber.Text(16))
	sum := sha256.Sum256(c.Raw)
	row("sha256", hex.EncodeToString(sum[:]))
}

// kind returns the use of a certificate.
func kind(c *x509.Certificate) string {
	if cluster, ok := peertls.ClusterOf(c); ok {
		return "CA of cluster " + cluster
	}
	if c.IsCA {
		return "CA " + printable(c.Subject.CommonName)
	}
	if cluster, id, ok := peertls.PeerID(c); ok {
		return fmt.Sprintf("peer %s of cluster %s", id, cluster)
	}
	roles := "no role"
	if len(c.Subject.OrganizationalUnit) > 0 {
		roles = printable(strings.Join(c.Subject.OrganizationalUnit, ", "))
	}
	return fmt.Sprintf("client: user %s, %s", printable(c.Subject.CommonName), roles)
}

// printable escapes foreign text in a certificate, so that it cannot control the terminal.
func printable(s string) string {
	if q := fmt.Sprintf("%q", s); q != `"`+s+`"` {
		return q
	}
	return s
}
