package ui

import (
	"context"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
)

// pageTimeout bounds the time to render a page.
const pageTimeout = 10 * time.Second

// visit is one request for a page by an authenticated user.
type visit struct {
	*dashboard
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context //nolint:containedctx // the context of the request
	who   *holdfastv1.Identity
	read  *clients // reads this peer's state
	write *clients
}

// view is the data of every template.
type view struct {
	Title, Nav string
	Who        *holdfastv1.Identity // nil if not signed in
	Pages      []navGroup           // the navigation; none if the user has to sign in
	Open       bool                 // started with --insecure: every caller is an admin
	At         position
	NoLeader   string // why there is no leader; empty if there is one
	Now        time.Time
	Again      string // the URL of this page
	Error      string // the error of the requested action
	Unsure     bool   // the outcome of the requested action is unknown
	Post       bool   // an action was requested
	Body       any
}

// visit returns the handler of a page. An error that h returns is shown instead of the
// page.
func (d *dashboard) visit(h func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) || !utf8.ValidString(r.URL.RawQuery) {
			d.fault(w, r, http.StatusBadRequest, "The address is not UTF-8.")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		reads := &conn{ClientConnInterface: d.rpc, reads: true}
		if n, err := strconv.ParseUint(r.URL.Query().Get("at"), 10, 64); err == nil {
			reads.least = strconv.FormatUint(n, 10)
		}
		v := &visit{
			dashboard: d,
			w:         w,
			r:         r,
			ctx:       ctx,
			who:       auth.From(r.Context()),
			read:      newClients(reads),
			write:     newClients(&conn{ClientConnInterface: d.rpc}),
		}
		if err := h(v); err != nil {
			code := httpjson.Status(err)
			p := &view{Title: titleOf(code), Error: httpjson.Message(err), Unsure: v.unsure(err)}
			back := navAt(r.URL.Path)
			p.Body = faultBody{back, code}
			d.show(w, r, code, "fault", v.view("", back.Key, p))
		}
	}
}

// may reports whether the role of the user allows a method.
func (v *visit) may(method string) bool { return may(v.who, method) }

// view sets the fields that all pages have.
func (v *visit) view(title, nav string, p *view) *view {
	if title != "" {
		p.Title = title
	}
	p.Nav, p.Who, p.At, p.Now = nav, v.who, v.read.conn.position(), v.now()
	p.Open = v.who.GetMethod() == auth.MethodInsecure
	p.Again = v.r.URL.RequestURI()
	p.Pages = navigationOf(v.who)
	if p.At.known && p.At.Leader == "" {
		p.NoLeader = v.noLeader(v.ctx, v.read)
	}
	return p
}

// page shows a page, with an error above its content if shown is not nil.
func (v *visit) page(name, title, nav string, body any, shown error) error {
	code, p := http.StatusOK, &view{Body: body, Post: v.r.Method == http.MethodPost}
	if shown != nil {
		code, p.Error, p.Unsure = httpjson.Status(shown), httpjson.Message(shown), v.unsure(shown)
	}
	v.show(v.w, v.r, code, name, v.view(title, nav, p))
	return nil
}

// unsure reports whether an action may have been done although it failed: the leader died,
// or it timed out.
func (v *visit) unsure(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled:
		return v.r.Method == http.MethodPost
	}
	return v.r.Method == http.MethodPost && httpjson.Reason(err) == outcome.ReasonOutcomeUnknown
}

// done redirects to a page that shows the result, read from a state that includes it.
func (v *visit) done(path string) error {
	if at := v.write.conn.position(); at.known {
		path += "?at=" + at.Index
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// noLeader returns why this peer knows no leader.
func (d *dashboard) noLeader(ctx context.Context, c *clients) string {
	st, err := d.health.Status(ctx, c.cluster)
	if err != nil || st.GetLeader() != "" { // there is one by now
		return ""
	}
	return health.NoLeader(st)
}

// faultBody is an error page.
type faultBody struct {
	Back navEntry // the page that the address is below, or none
	Code int
}

// Denied reports whether another user may be allowed to open the page.
func (b faultBody) Denied() bool { return b.Code == http.StatusForbidden }

// fault shows an error page. It does not need an authenticated user.
func (d *dashboard) fault(w http.ResponseWriter, r *http.Request, code int, message string) {
	who := auth.From(r.Context())
	back := navAt(r.URL.Path)
	d.show(w, r, code, "fault", &view{
		Title: titleOf(code),
		Error: message,
		Nav:   back.Key,
		Who:   who,
		Pages: navigationOf(who),
		Open:  who.GetMethod() == auth.MethodInsecure,
		Now:   d.now(),
		Again: r.URL.RequestURI(),
		Body:  faultBody{back, code},
	})
}

// titleOf returns the title of an error page.
func titleOf(code int) string {
	switch code {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "Not allowed"
	}
	return http.StatusText(code)
}
