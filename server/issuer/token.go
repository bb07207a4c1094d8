package issuer

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// maxForm bounds the body of a token request in bytes. Real ones have a few hundred.
const maxForm = 16 << 10

// oauthError is an error of RFC 6749 §5.2.
type oauthError struct {
	status            int
	code, description string
	retry             time.Duration
}

func (e *oauthError) Error() string { return e.code + ": " + e.description }

func invalidRequest(description string) *oauthError {
	return &oauthError{status: http.StatusBadRequest, code: "invalid_request", description: description}
}

// credentials are the id and secret that a client sent.
type credentials struct {
	id, secret string
}

// token is the token endpoint (RFC 6749 §3.2).
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	raw, err := i.exchange(w, r)
	if err != nil {
		i.fail(w, r, err)
		return
	}
	w.Header().Set("Pragma", "no-cache")
	answer(w, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"` // seconds
		Scope       string `json:"scope"`
	}{raw, "Bearer", int(i.cfg.TTL.Seconds()), scope})
}

// exchange returns an access token for the credentials in a request.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) (string, error) {
	signer, err := i.ready()
	if err != nil {
		return "", err
	}
	form, bad := readForm(w, r)
	if bad != nil {
		return "", bad
	}
	c, bad := clientOf(r.Header, form)
	if bad != nil {
		return "", bad
	}
	switch form.Get("grant_type") {
	case "client_credentials":
	case "":
		return "", invalidRequest("grant_type is missing: want client_credentials")
	default:
		return "", &oauthError{
			status:      http.StatusBadRequest,
			code:        "unsupported_grant_type",
			description: "only client_credentials is supported",
		}
	}
	iss := i.name(r)
	if iss == "" {
		return "", invalidRequest("the Host header of the request is invalid")
	}
	who, err := i.clients.Client(r.Context(), c.id, c.secret, r.RemoteAddr, r.Pattern)
	if err != nil {
		return "", err
	}
	raw, err := i.issue(signer, iss, who)
	if err == nil {
		i.log.DebugContext(r.Context(), "access token issued",
			"client", who.GetPrincipal(), "client_id", who.GetTokenId(), "seconds", int(i.cfg.TTL.Seconds()))
	}
	return raw, err
}

// readForm reads the form in the body. URL parameters are ignored, because secrets in URLs
// end up in logs.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, *oauthError) {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || t != "application/x-www-form-urlencoded" {
		return nil, invalidRequest("want a body of type application/x-www-form-urlencoded")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	switch {
	case auth.TooLarge(err):
		return nil, &oauthError{
			status:      http.StatusRequestEntityTooLarge,
			code:        "invalid_request",
			description: "the body has more than " + strconv.Itoa(maxForm) + " bytes",
		}
	case err != nil:
		return nil, invalidRequest("the body is incomplete")
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, invalidRequest("the body is not a form") // the error would quote the form
	}
	for name, values := range form {
		if len(values) > 1 {
			if name != "grant_type" && name != "client_id" && name != "client_secret" && name != "scope" {
				name = "a parameter"
			}
			return nil, invalidRequest(name + " is given more than once")
		}
	}
	return form, nil
}

// clientOf returns the credentials of a client. They are in the Authorization header or in
// the form (RFC 6749 §2.3.1), not in both.
func clientOf(h http.Header, form url.Values) (credentials, *oauthError) {
	c := credentials{id: form.Get("client_id"), secret: form.Get("client_secret")}
	if headers := h.Values("Authorization"); len(headers) > 0 {
		id, secret, ok := (&http.Request{Header: h}).BasicAuth()
		switch {
		case len(headers) > 1 || !ok:
			return c, invalidClient("the Authorization header is not Basic with a client's id and secret")
		case form.Has("client_secret"):
			return c, invalidRequest("the client authenticates twice: in the header and in the form")
		}
		b := credentials{id: unescape(id), secret: unescape(secret)}
		if form.Has("client_id") && c.id != b.id {
			return c, invalidRequest("client_id differs from the Authorization header")
		}
		c = b
	}
	if c.id == "" || c.secret == "" {
		return c, invalidClient(
			"no client credentials: send id and secret as HTTP Basic or as client_id and client_secret")
	}
	return c, nil
}

// unescape decodes the form encoding within Basic, which the standard requires and some
// clients omit.
func unescape(s string) string {
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}

func invalidClient(description string) *oauthError {
	return &oauthError{status: http.StatusUnauthorized, code: "invalid_client", description: description}
}

// fail writes an error in the form of RFC 6749 §5.2.
func (i *Issuer) fail(w http.ResponseWriter, r *http.Request, err error) {
	var (
		known  *oauthError
		off    unavailable
		denied *auth.Error
	)
	switch {
	case errors.As(err, &known):
	case errors.As(err, &off):
		known = &oauthError{
			status:      http.StatusServiceUnavailable,
			code:        "temporarily_unavailable",
			description: off.Error(),
			retry:       5 * time.Second,
		}
	case errors.As(err, &denied) && denied.Code == codes.Unauthenticated:
		known = invalidClient(denied.Message)
	case errors.As(err, &denied):
		known = &oauthError{
			status:      auth.StatusOf(denied.Code),
			code:        "temporarily_unavailable",
			description: denied.Message,
			retry:       max(denied.Retry, time.Second),
		}
	default:
		i.log.WarnContext(r.Context(), "token request failed", "path", r.URL.Path, "error", err)
		known = &oauthError{
			status:      http.StatusServiceUnavailable,
			code:        "temporarily_unavailable",
			description: "the cluster cannot authenticate the client at the moment: retry",
			retry:       time.Second,
		}
	}
	if known.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="holdfast", charset="UTF-8"`)
	}
	if known.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(known.retry.Round(time.Second)/time.Second)))
	}
	refuse(w, known.status, known.code, known.description)
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	plain := strings.Map(func(r rune) rune { // RFC 6749 allows few characters in a description
		switch {
		case r == '"', r == '`':
			return '\''
		case r == '\\':
			return '/'
		case r < ' ', r > '~':
			return '?'
		}
		return r
	}, description)
	answer(w, status, struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{code, plain})
}

var _ Clients = (*auth.Gate)(nil)
