package signin

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Lifetime is the time that a person has to sign in at the issuer.
const Lifetime = 10 * time.Minute

// use separates the state of a sign-in from other sealed texts.
const use = "sign-in"

// Sealer returns texts that every peer can read for a limited time (*secrets.Sessions).
type Sealer interface {
	Seal(use string, data []byte, lasts time.Duration) (string, error)
	Unseal(use, text string) ([]byte, bool)
}

// Flow signs people in. It has no state.
type Flow struct {
	issuers []*auth.SignIn
	sealer  Sealer
}

// New returns the flow for the issuers.
func New(issuers []*auth.SignIn, sealer Sealer) *Flow {
	f := &Flow{sealer: sealer}
	for _, s := range issuers {
		if s.Config().ClientID != "" {
			f.issuers = append(f.issuers, s)
		}
	}
	return f
}

// Choice is an issuer on the sign-in page.
type Choice struct{ Issuer, Name string }

// Choices returns the issuers of the sign-in page.
func (f *Flow) Choices() []Choice {
	var all []Choice
	for _, s := range f.issuers {
		c := s.Config()
		all = append(all, Choice{Issuer: c.URL, Name: c.DisplayName})
	}
	return all
}

// find returns an issuer by its URL, or nil.
func (f *Flow) find(issuer string) *auth.SignIn {
	for _, s := range f.issuers {
		if s.Config().URL == issuer {
			return s
		}
	}
	return nil
}

// state is a sign-in that has begun.
type state struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // PKCE
	Issuer   string `json:"i"`
	Redirect string `json:"r"`
	Next     string `json:"x"`
}

// Begun is a sign-in that has begun: where the browser goes, and the cookie that it returns
// with.
type Begun struct {
	URL    string
	Cookie string // empty: URL is the same step under the configured address
	Secure bool   // the browser returns by https
}

// Begin begins a sign-in with an issuer. Next is the page to open afterwards.
func (f *Flow) Begin(r *http.Request, issuer, next string) (Begun, *auth.Error) {
	s := f.find(issuer)
	if s == nil {
		return Begun{}, refuse(codes.NotFound, auth.ReasonSignInState,
			"This cluster has no such identity provider. Choose one of those below.")
	}
	if to := canonicalURL(r, s.Config().RedirectURL); to != "" {
		return Begun{URL: to}, nil
	}
	redirect, err := redirectURL(r, s.Config().RedirectURL)
	if err != nil {
		return Begun{}, err
	}
	p, err := s.Provider(r.Context())
	if err != nil {
		return Begun{}, err
	}
	st := state{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Issuer: issuer,
		Redirect: redirect, Next: next}
	b, failed := json.Marshal(st)
	if failed != nil {
		return Begun{}, refuse(codes.Internal, auth.ReasonSignInState, "The sign-in cannot begin.")
	}
	cookie, failed := f.sealer.Seal(use, b, Lifetime)
	if failed != nil {
		return Begun{}, refuse(codes.Unavailable, auth.ReasonSignInState,
			"The sign-in cannot begin: this peer cannot encrypt. Use another peer, or a token.")
	}
	to := config(s.Config(), p, redirect).AuthCodeURL(st.State, oidc.Nonce(st.Nonce),
		oauth2.S256ChallengeOption(st.Verifier))
	return Begun{URL: to, Cookie: cookie, Secure: strings.HasPrefix(redirect, "https:")}, nil
}

// config returns the client of the dashboard, without its secret.
func config(c auth.Issuer, p *oidc.Provider, redirect string) *oauth2.Config {
	return &oauth2.Config{ClientID: c.ClientID, Endpoint: p.Endpoint(), RedirectURL: redirect, Scopes: c.Scopes}
}

// EndURL returns the address at which a person also signs out of the issuer of a token, and the
// issuer. It is empty if there is none, or if the issuer does not answer.
func (f *Flow) EndURL(r *http.Request, issuer string) (string, Choice) {
	s := f.find(issuer)
	if s == nil {
		return "", Choice{}
	}
	p, err := s.Provider(r.Context())
	if err != nil {
		return "", Choice{}
	}
	var doc struct {
		End string `json:"end_session_endpoint"`
	}
	if p.Claims(&doc) != nil {
		return "", Choice{}
	}
	u, bad := url.Parse(doc.End)
	if bad != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", Choice{}
	}
	q := u.Query()
	q.Set("client_id", s.Config().ClientID)
	u.RawQuery = q.Encode()
	return u.String(), Choice{Issuer: issuer, Name: s.Config().DisplayName}
}

// IssuerOf returns the issuer of a session's token, or "" if it is none of the sign-in page.
func (f *Flow) IssuerOf(token string) string {
	for _, s := range f.issuers {
		if s.Issued(token) {
			return s.Config().URL
		}
	}
	return ""
}

func refuse(code codes.Code, reason, message string) *auth.Error {
	return &auth.Error{Code: code, Reason: reason, Message: message}
}
