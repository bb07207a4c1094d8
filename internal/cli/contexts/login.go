package contexts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/login"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// browserTime is the time that a person has to sign in with a browser.
const browserTime = 10 * time.Minute

// Login returns the command that signs in.
func Login(a *app.App) *cobra.Command {
	var issuer string
	var browser bool
	cmd := &cobra.Command{
		Use: "login [--issuer NAME] [--browser]", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Sign in to the current context with your identity provider",
		Long: `Sign in to the current context with an OIDC issuer of the cluster. The command shows an address and a code to
enter there, in a browser on any machine. With --browser, and if the issuer has no such flow, the browser must be on
this machine.

The tokens are stored beside the config file, readable for you only, and are refreshed before a call when they have
expired. They have priority over a token of the context; --token and HOLDFAST_TOKEN have priority over both.`,
		Example: `  holdfast login
  holdfast --context prod login --issuer 'Example SSO' --browser`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := loginTarget(a)
			if err != nil {
				return err
			}
			return signIn(cmd.Context(), a, t, issuer, browser)
		},
	}
	cmd.Flags().StringVar(&issuer, "issuer", "", "`name` or URL of the issuer, if the cluster has several")
	cmd.Flags().BoolVar(&browser, "browser", false, "sign in with a browser on this machine")
	return cmd
}

// Logout returns the command that signs out.
func Logout(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Args: app.Exactly(),
		Short: "Delete the sign-in of the current context",
		Long: `Delete the tokens that 'login' stored for the current context. The session in the browser does not end.
An access token that somebody has copied is valid until it expires.`,
		Example: "  holdfast logout",
		RunE: func(*cobra.Command, []string) error {
			t, err := loginTarget(a)
			if err != nil {
				return err
			}
			if err := login.At(t.Contexts, t.Name).Delete(); err != nil {
				return err
			}
			a.Note("signed out of context %s", t.Name)
			return nil
		},
	}
}

// loginTarget returns the selected context, which stores the sign-in.
func loginTarget(a *app.App) (app.Destination, error) {
	t, err := a.Target()
	if err == nil && t.Name == "" {
		err = app.Usagef("no context is selected, which would store the sign-in: " +
			"run: holdfast context set NAME --addr … --ca …")
	}
	return t, err
}

// signIn signs in with an issuer of the cluster, and stores the tokens.
func signIn(ctx context.Context, a *app.App, t app.Destination, name string, browser bool) error {
	cfg, err := a.ClientConfig()
	if err != nil {
		return err
	}
	var token string
	cfg.Token, cfg.Tokens = "", func(context.Context) (string, error) { return token, nil }
	c, err := client.Dial(cfg)
	if err != nil {
		return app.Usagef("%s", err)
	}
	defer func() { _ = c.Close() }()
	issuer, err := chooseIssuer(ctx, c, name)
	if err != nil {
		return err
	}
	saved, err := signInWith(ctx, a, issuer, browser)
	if err != nil {
		return err
	}
	token = saved.Token
	id, err := c.Access().WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
	if err != nil {
		return app.Failed(err, "sign in to context %s", t.Name)
	}
	if err := login.At(t.Contexts, t.Name).Save(saved); err != nil {
		return err
	}
	until := "until " + saved.Expires.Local().Format("2006-01-02 15:04")
	if saved.Refresh != "" {
		until = "and stay so while " + issuer.GetDisplayName() + " refreshes the token"
	}
	a.Note("you are signed in to context %s as %s (%s), %s", t.Name, id.GetPrincipal(), loginRole(id), until)
	return nil
}

// loginRole returns the role of an identity, and its pools.
func loginRole(id *holdfastv1.Identity) string {
	if id.GetRole() == holdfastv1.Role_ROLE_UNSPECIFIED {
		return "no role: an admin maps your groups to one in oidc_issuers"
	}
	role := strings.ToLower(id.GetRole().String())
	if len(id.GetPools()) > 0 {
		role += " of " + strings.Join(id.GetPools(), ", ")
	}
	return role
}

// chooseIssuer returns the issuer with a name or URL, or the only one.
func chooseIssuer(ctx context.Context, c *client.Client, name string) (*holdfastv1.Issuer, error) {
	r, err := c.Cluster().GetIssuers(ctx, &holdfastv1.GetIssuersRequest{})
	if err != nil {
		return nil, app.Failed(err, "ask for the issuers of the cluster")
	}
	var fit, all []*holdfastv1.Issuer
	var names []string
	for _, i := range r.GetIssuers() {
		if i.GetClientId() == "" {
			continue
		}
		all, names = append(all, i), append(names, fmt.Sprintf("%q", i.GetDisplayName()))
		if name == i.GetDisplayName() || name == i.GetIssuer() {
			fit = append(fit, i)
		}
	}
	switch {
	case len(all) == 0:
		return nil, app.Exitf(app.ExitConflict,
			"the cluster has no issuer for holdfast login: use a token, or an admin sets "+
				"client_id or cli_client_id in oidc_issuers (the page Sign-in of the documentation)")
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return nil, app.Usagef("the cluster has several issuers: give one with --issuer: %s", strings.Join(names, ", "))
	case len(fit) == 0:
		return nil, app.Exitf(app.ExitNotFound, "issuer %q not found: the cluster has %s", name,
			strings.Join(names, ", "))
	}
	return fit[0], nil
}

// signInWith signs in with an issuer.
func signInWith(ctx context.Context, a *app.App, i *holdfastv1.Issuer, browser bool) (login.Saved, error) {
	f, err := login.New(ctx, login.Issuer{URL: i.GetIssuer(), ClientID: i.GetClientId(), Audience: i.GetAudience(),
		Scopes: i.GetScopes()})
	if err != nil {
		return login.Saved{}, err
	}
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	if !browser {
		saved, err := f.Device(ctx, func(p login.Prompt) { showCode(a, p) })
		if !errors.Is(err, login.ErrNoDevice) {
			return saved, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, browserTime)
	defer stop()
	return f.Browser(ctx, func(address string) {
		a.Note("Open this address in a browser on this machine:")
		a.Note("%s", address)
		a.Note("Waiting until %s …", a.Now().Add(browserTime).Local().Format("15:04"))
		openBrowser(ctx, a, address)
	})
}

func showCode(a *app.App, p login.Prompt) {
	a.Note("Open %s and enter the code %s.", p.URL, p.Code)
	if p.Complete != "" {
		a.Note("Or open %s, which has the code filled in.", p.Complete)
	}
	a.Note("Waiting until %s …", p.Until.Local().Format("15:04"))
}

// openBrowser opens an address on the desktop of a person, if there is one.
func openBrowser(ctx context.Context, a *app.App, address string) {
	if !a.Terminal(a.Err) || a.Getenv("DISPLAY") == "" && a.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	//nolint:gosec // an https address of the issuer as the only argument, without a shell
	_ = exec.CommandContext(ctx, "xdg-open", address).Start() // the address is on the terminal, too
}
