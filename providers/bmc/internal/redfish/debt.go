package redfish

import (
	"slices"
	"time"
)

// Login is one or more logins whose result is unknown. They may have left sessions at the BMC.
type Login struct {
	From    string    `json:"from"` // address of the peer that logged in, as the BMC sees it without NAT
	First   time.Time `json:"first"`
	Until   time.Time `json:"until"`
	Checked bool      `json:"checked,omitempty"` // their sessions were ended; another one may appear late
}

// Equal reports whether both are the same.
func (l Login) Equal(o Login) bool {
	return l.From == o.From && l.First.Equal(o.First) && l.Until.Equal(o.Until) && l.Checked == o.Checked
}

// lateLogin bounds how long after the end of an unanswered login its session may appear: the BMC
// may still have to serve the request.
const lateLogin = 30 * time.Second

// endsItself is the time after which a service has ended an unused session by itself.
const endsItself = time.Hour

// Debt contains the sessions that former logins may have left at the BMC, besides the recorded one.
type Debt struct {
	Paths  []string // sessions of ours
	Logins []Login  // at most one for each address
}

// mostOwed bounds the number of sessions and of logins that are remembered.
const mostOwed = 8

// none reports whether nothing is left.
func (d Debt) none() bool { return len(d.Paths) == 0 && len(d.Logins) == 0 }

// due reports whether sessions are left, as far as is known. A late one may appear even if not.
func (d Debt) due() bool {
	return len(d.Paths) > 0 || slices.ContainsFunc(d.Logins, func(l Login) bool { return !l.Checked })
}

// owe adds a session that has to be ended.
func (d Debt) owe(path string) Debt {
	if path == "" || slices.Contains(d.Paths, path) {
		return d
	}
	d.Paths = append(slices.Clone(d.Paths), path)
	d.Paths = d.Paths[max(0, len(d.Paths)-mostOwed):]
	return d
}

// Add adds a login whose result is unknown.
func (d Debt) Add(l Login) Debt {
	d.Logins = slices.Clone(d.Logins)
	if i := slices.IndexFunc(d.Logins, func(o Login) bool { return o.From == l.From }); i >= 0 {
		o := d.Logins[i]
		if o.First.Before(l.First) {
			l.First = o.First
		}
		if o.Until.After(l.Until) {
			l.Until = o.Until
		}
		l.Checked = l.Checked && o.Checked
		d.Logins = slices.Delete(d.Logins, i, i+1)
	}
	d.Logins = append(d.Logins, l)
	d.Logins = d.Logins[max(0, len(d.Logins)-mostOwed):]
	return d
}

// and returns a Debt that covers both.
func (d Debt) and(o Debt) Debt {
	for _, p := range o.Paths {
		d = d.owe(p)
	}
	for _, l := range o.Logins {
		d = d.Add(l)
	}
	return d
}
