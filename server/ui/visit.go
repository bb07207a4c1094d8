package ui

import (
	"context"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// pageTimeout bounds what a page asks for: somebody is looking at an empty window.
const pageTimeout = 10 * time.Second

// visit is one request for a page, by somebody who has been let in.
type visit struct {
	*dashboard
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context //nolint:containedctx // it lives as long as the request that it is of
	who   *holdfastv1.Identity
	read  *clients // from this peer's state
	write *clients
}

// view is what every template gets.
type view struct {
	Title, Nav string
	Who        *holdfastv1.Identity // nil: nobody is signed in
	Open       bool                 // no sign-in here: everybody is an admin
	At         position
	Now        time.Time
	Again      string // this page, to come back to
	Error      string // of what was asked for, in the words of the API
	Unsure     bool   // whether what was asked for was done
	MayAudit   bool
	Body       any
}

// visit makes a handler of a page. An error that the page does not show itself is shown in its
// place.
func (d *dashboard) visit(h func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) || !utf8.ValidString(r.URL.RawQuery) {
			d.fault(w, r, http.StatusBadRequest, "The address is not UTF-8.")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		reads := &conn{rpc: d.rpc, reads: true}
		if n, err := strconv.ParseUint(r.URL.Query().Get("at"), 10, 64); err == nil {
			reads.least = strconv.FormatUint(n, 10)
		}
		v := &visit{
			dashboard: d, w: w, r: r, ctx: ctx, who: auth.From(r.Context()), read: newClients(reads), write: newClients(&conn{rpc: d.rpc}),
		}
		if err := h(v); err != nil {
			d.show(w, r, httpjson.Status(err), "fault", v.view("", "", &view{Title: http.StatusText(httpjson.Status(err)), Error: httpjson.Message(err), Unsure: v.unsure(err)}))
		}
	}
}

// view fills in what every page has.
func (v *visit) view(title, nav string, p *view) *view {
	if title != "" {
		p.Title = title
	}
	p.Nav, p.Who, p.At, p.Now = nav, v.who, v.read.conn.position(), v.now()
	p.Open = v.who.GetMethod() == auth.MethodInsecure
	p.Again = v.r.URL.RequestURI()
	p.MayAudit = v.rules.may(v.who, "AuditService/ListAuditEvents")
	return p
}

// page shows a page. The error that is no reason not to show it stands in it.
func (v *visit) page(name, title, nav string, body any, shown error) error {
	code, p := http.StatusOK, &view{Body: body}
	if shown != nil {
		code, p.Error, p.Unsure = httpjson.Status(shown), httpjson.Message(shown), v.unsure(shown)
	}
	v.show(v.w, v.r, code, name, v.view(title, nav, p))
	return nil
}

// unsure reports whether what was asked for may have been done all the same: a leader died in
// between, or it took too long.
func (v *visit) unsure(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled:
		return v.r.Method == http.MethodPost
	}
	return v.r.Method == http.MethodPost && httpjson.Reason(err) == cluster.ReasonOutcomeUnknown
}

// done leads to where the outcome of an action is to be seen, in a state that includes it.
func (v *visit) done(path string) error {
	if at := v.write.conn.position(); at.known {
		path += "?at=" + at.Index
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// fault shows that something did not work, to whomever.
func (d *dashboard) fault(w http.ResponseWriter, r *http.Request, code int, message string) {
	d.show(w, r, code, "fault", &view{Title: http.StatusText(code), Error: message, Now: d.now()})
}
