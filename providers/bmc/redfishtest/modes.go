package redfishtest

import "net/http"

// Mode is a kind of oddity of real BMCs: the service stays usable, and answers oddly.
type Mode struct {
	Name     string
	Says     string        // what is odd, and where it was seen
	Config   func(*Config) // may be nil
	Quirks   func(*Quirks) // may be nil
	Endpoint string        // path that an endpoint needs

	TLS       bool // over TLS, with a certificate that it signed for another name
	NoSoftOff bool // it has no soft way off
	NoBoot    bool // it never reports that the host has booted
}

// odd returns the quirks of a mode that alters the answers in some ways.
func odd(ways ...string) func(*Quirks) { return func(q *Quirks) { q.Odd = ways } }

// refuseOnce returns the quirks of a service that refuses each change once.
func refuseOnce(status int, code string) func(*Quirks) {
	return func(q *Quirks) {
		q.Refuse = map[string]Refusal{}
		for _, change := range []string{
			"POST ComputerSystem.Reset", "POST VirtualMedia.InsertMedia", "POST VirtualMedia.EjectMedia",
			"POST LogService.ClearLog", "PATCH 1",
		} {
			q.Refuse[change] = Refusal{Status: status, Code: code, Text: "Not now.", Times: 1}
		}
	}
}

// AllOdd sets all oddities that one BMC can have at the same time.
func AllOdd(q *Quirks) {
	q.Odd = []string{
		OddTypes, OddNulls, OddNoLinks, OddLinks, OddForeign, OddDead, OddPages, OddInline, OddPadded,
		OddPlaceholders, OddCase, OddBytes, OddHTML, OddManagers, OddSlashes, OddJSON,
	}
	q.Forbidden = []string{"Memory", "Thermal", "Power"}
	q.Progress = "SystemHardwareInitializationComplete"
	q.ResetTypes = []string{"On", "ForceOff", "ForceRestart"}
	q.LateSystem, q.BusyLogins, q.SessionLocation = 3, 1, "none"
	refuseOnce(http.StatusServiceUnavailable, "ResourceNotReadyRetry")(q)
}

// Modes returns one mode for each kind of oddity.
func Modes() []Mode {
	return []Mode{
		{Name: "other types", Says: "numbers and flags as texts, lists as one text", Quirks: odd(OddTypes)},
		{Name: "nulls", Says: "optional properties are null", Quirks: odd(OddNulls)},
		{Name: "no links", Says: "the links to manager and chassis are missing", Quirks: odd(OddNoLinks)},
		{Name: "link forms", Says: "links are paths, or have href", Quirks: odd(OddLinks)},
		{Name: "foreign links", Says: "collections name a resource of another host", Quirks: odd(OddForeign)},
		{Name: "dead links", Says: "collections name a resource that has vanished", Quirks: odd(OddDead)},
		{Name: "pages", Says: "collections have one member on a page", Quirks: odd(OddPages)},
		{Name: "inline", Says: "collections include their members, which are not there alone", Quirks: odd(OddInline)},
		{Name: "padded", Says: "texts are padded to a fixed length", Quirks: odd(OddPadded)},
		{Name: "placeholders", Says: "serial numbers and names are placeholders", Quirks: odd(OddPlaceholders)},
		{Name: "other case", Says: "names of properties begin in lower case", Quirks: odd(OddCase)},
		{Name: "stray bytes", Says: "a byte order mark, and text behind the object", Quirks: odd(OddBytes)},
		{Name: "broken JSON", Says: "commas, words and escapes that JSON does not have", Quirks: odd(OddJSON)},
		{Name: "redirects", Says: "a path without a slash at its end is redirected", Quirks: odd(OddSlashes)},
		{Name: "HTML errors", Says: "errors are pages of the web server", Quirks: odd(OddHTML)},
		{Name: "several managers", Says: "another controller is listed first", Quirks: odd(OddManagers, OddNoLinks)},
		{
			Name: "403 on parts", Says: "a license or the account does not include some parts",
			Quirks: func(q *Quirks) { q.Forbidden = []string{"Memory", "Thermal", "Power"} },
		},
		{Name: "400 once", Says: "PSU501: not now", Quirks: refuseOnce(http.StatusBadRequest, "PSU501")},
		{Name: "403 once", Says: "HostLockdown", Quirks: refuseOnce(http.StatusForbidden, "HostLockdown")},
		{Name: "404 once", Says: "RAC0904", Quirks: refuseOnce(http.StatusNotFound, "RAC0904")},
		{Name: "409 once", Says: "an answer without a body", Quirks: refuseOnce(http.StatusConflict, "")},
		{
			Name: "503 once", Says: "ResourceNotReadyRetry",
			Quirks: refuseOnce(http.StatusServiceUnavailable, "ResourceNotReadyRetry"),
		},
		{
			Name: "late system", Says: "the BMC starts: its system is not there yet",
			Quirks: func(q *Quirks) { q.LateSystem = 3 },
		},
		{
			Name: "baseboard", Says: "another system beside the host", Endpoint: "/redfish/v1/Systems/1",
			Config: func(c *Config) { c.Style.Others = []string{"HGX_Baseboard_0"} },
		},
		{
			Name: "no sessions", Says: "405 for a login, as iDRAC 8",
			Quirks: func(q *Quirks) { q.LoginStatus = http.StatusMethodNotAllowed },
		},
		{Name: "busy login", Says: "one bare 503 for a login", Quirks: func(q *Quirks) { q.BusyLogins = 1 }},
		{
			Name: "login without path", Says: "neither Location nor @odata.id",
			Quirks: func(q *Quirks) { q.SessionLocation = "none" },
		},
		{
			Name: "endless boot", Says: "the boot progress stays at a late state of the firmware", NoBoot: true,
			Quirks: func(q *Quirks) { q.Progress = "SystemHardwareInitializationComplete" },
		},
		{
			Name: "no soft off", Says: "a list of resets without GracefulShutdown", NoSoftOff: true,
			Quirks: func(q *Quirks) { q.ResetTypes = []string{"On", "ForceOff", "ForceRestart"} },
		},
		{
			Name: "all at once", Says: "all oddities that one BMC can have together",
			NoBoot: true, NoSoftOff: true, Quirks: AllOdd,
		},
		{Name: "odd TLS", Says: "it signs for itself, and for another name", TLS: true},
	}
}
