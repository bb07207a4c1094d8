// Package installtest is a peer for tests of the installer. It implements the HTTP contract
// strictly and records the requests.
//
// It checks the requests of a well-behaved installer and their order, and simulates network
// faults. It does not use the installer's own types, so that it tests the wire format.
package installtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Token is the only token that the peer accepts.
const Token = "install-token-1"

// Report is a report that the peer received.
type Report struct {
	Status    string         `json:"status"`
	Stage     string         `json:"stage"`
	Progress  int            `json:"progress"`
	Error     string         `json:"error"`
	HostKeys  []string       `json:"host_keys"`
	Inventory map[string]any `json:"inventory"`
	IPAddress string         `json:"ip_address"`
}

// Peer is an http.Handler. Its exported fields must be set before it serves.
type Peer struct {
	Image []byte
	Order map[string]any // the work order
	CutAt int            // the first responses with the image end after so many bytes; 0: none does
	Cuts  int            // number of such responses
	// Refuse is called before each request. If it returns a status other than 0, that is
	// the response.
	Refuse func(r *http.Request) int

	mu      sync.Mutex
	reports []Report
	log     []byte
	served  []string // requested ranges of the image
	wrong   []string
}

// Standard returns a work order for the peer's image.
func (p *Peer) Standard(name, compression, disk string) map[string]any {
	sum := sha256.Sum256(p.Image)
	return map[string]any{
		"machine_id": "m-1",
		"run_id":     "run-1",
		"attempt":    1,
		"disk":       disk,
		"wipe":       false,
		"hostname":   "node-1",
		"image": map[string]any{
			"name":        name,
			"url":         "/images/" + name + "/disk",
			"sha256":      hex.EncodeToString(sum[:]),
			"size_bytes":  len(p.Image),
			"format":      "RAW",
			"compression": compression,
		},
		"cloud_init": map[string]any{
			"user_data": "#cloud-config\nusers: [default]\n", "network_config": "version: 2\n", "meta_data": "",
		},
		"authorized_keys":     []string{"ssh-ed25519 AAAA operator"},
		"report_url":          "/api/v1/install/report",
		"log_url":             "/api/v1/install/log",
		"a_field_of_tomorrow": true,
	}
}

// Reports returns the reports received, in order.
func (p *Peer) Reports() []Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reports)
}

// Last returns the last report, or a zero Report.
func (p *Peer) Last() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reports) == 0 {
		return Report{}
	}
	return p.reports[len(p.reports)-1]
}

// Statuses returns the statuses of the reports, without consecutive duplicates.
func (p *Peer) Statuses() []string {
	var all []string
	for _, r := range p.Reports() {
		all = append(all, r.Status)
	}
	return slices.Compact(all)
}

// Log returns the log received so far.
func (p *Peer) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log)
}

// Ranges returns the requested ranges of the image; "" is all of it.
func (p *Peer) Ranges() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.served)
}

// Wrong returns the violations of the contract.
func (p *Peer) Wrong() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrong)
}

func (p *Peer) refuse(w http.ResponseWriter, status int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	p.wrong = append(p.wrong, text)
	p.mu.Unlock()
	http.Error(w, text, status)
}

// ServeHTTP implements http.Handler.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Refuse != nil {
		if status := p.Refuse(r); status != 0 {
			http.Error(w, "not now", status)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/images/") {
		p.image(w, r)
		return
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+Token {
		p.refuse(w, http.StatusUnauthorized, "%s: Authorization %q", r.URL.Path, got)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/install":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.Order)
	case "POST /api/v1/install/report":
		p.report(w, r)
	case "POST /api/v1/install/log":
		p.takeLog(w, r)
	default:
		p.refuse(w, http.StatusNotFound, "%s %s: there is no such thing", r.Method, r.URL.Path)
	}
}

func (p *Peer) report(w http.ResponseWriter, r *http.Request) {
	var got Report
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		p.refuse(w, http.StatusBadRequest, "report: %v", err)
		return
	}
	if why := p.check(got); why != "" {
		p.refuse(w, http.StatusBadRequest, "report %+v after %v: %s", got, p.Statuses(), why)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, got)
}

// check returns the reason why a report must not follow the earlier ones, or "".
func (p *Peer) check(r Report) string {
	last := p.Last()
	switch {
	case last.Status == "complete" || last.Status == "failed":
		return "it had ended"
	case r.Progress < 0 || r.Progress > 100:
		return "progress is per cent"
	case last.Status == "" && r.Status != "started" && r.Status != "failed":
		return "it has not started"
	case last.Status != "" && r.Status == "started":
		return "it has started before"
	case r.Status == "started" && (r.Inventory["disks"] == nil || r.IPAddress == ""):
		return "started comes with the inventory and the address"
	case (r.Status == "complete") != (len(r.HostKeys) > 0):
		return "host keys come with complete"
	case (r.Status == "failed") != (r.Error != ""):
		return "an error comes with failed"
	case !slices.Contains([]string{"started", "progress", "complete", "failed"}, r.Status):
		return "unknown status"
	}
	return ""
}

func (p *Peer) takeLog(w http.ResponseWriter, r *http.Request) {
	at, err := strconv.Atoi(r.URL.Query().Get("offset"))
	text, err2 := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	p.mu.Lock()
	have := len(p.log)
	p.mu.Unlock()
	if err != nil || err2 != nil || at < 0 || at > have {
		p.refuse(w, http.StatusBadRequest, "log at %q, after %d bytes: %v", r.URL.RawQuery, have, err2)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log[:at], text...)
}

func (p *Peer) image(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	cut := p.Cuts > 0
	if cut {
		p.Cuts--
	}
	p.served = append(p.served, r.Header.Get("Range"))
	p.mu.Unlock()
	if cut {
		w = &cutWriter{ResponseWriter: w, left: p.CutAt}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.Image))
}

// cutWriter breaks the connection after so many bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

// Write implements io.Writer.
func (c *cutWriter) Write(b []byte) (int, error) {
	if len(b) <= c.left {
		c.left -= len(b)
		return c.ResponseWriter.Write(b)
	}
	_, _ = c.ResponseWriter.Write(b[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}
