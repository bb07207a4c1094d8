package ui_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/ui"
	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

const evil = `<script>alert(1)</script>`

// lab is a peer with the dashboard. m-1 has a run with a log, m-2 is idle in another pool,
// and a node waits for approval.
func lab(t *testing.T) *apitest.Lab {
	t.Helper()
	return labWith(t, providers.SetOf(nil))
}

// labWith is lab for a peer with providers.
func labWith(t *testing.T, set *providers.Set) *apitest.Lab {
	t.Helper()
	l := apitest.Driving(t, set, func(m *auth.Mux, rpc grpc.ClientConnInterface, s *server.Server) {
		ui.Register(m, rpc, s, once{}, sessions(t), slog.New(slog.DiscardHandler))
	})
	l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Labels: map[string]string{"note": evil}, Spec: &holdfastv1.MachineSpec{Rack: "r7", Location: evil}}})
	l.Do(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "elsewhere"}})
	l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-2",
		Spec: &holdfastv1.MachineSpec{Rack: "r10", Pool: "elsewhere"}}})
	l.Do(&internalv1.ReportNode{Discover: true, MachineId: "new",
		Report: &holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:aa"}})
	l.Do(&internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", PlanId: "plan/repave-join",
		Type: "REPAVE", DefaultTimeoutSeconds: 60})
	l.Do(&internalv1.BeginAttempt{RunId: "run-1", Step: "set-netboot", Attempt: 1})
	l.Do(&internalv1.NoteProgress{RunId: "run-1", Step: "set-netboot", Attempt: 1,
		Wait: &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "BMC"}})
	appendLog(l, "hello \x1b[31m"+evil+"\n")
	return l
}

func appendLog(l *apitest.Lab, text string) {
	run, _ := l.State().Run("run-1")
	l.Do(&internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{RunId: "run-1", Offset: run.GetLogBytes(),
		Chunks: []*holdfastv1.LogChunk{
			{Stream: "stdout", Step: "set-netboot", Attempt: 1, Data: []byte(text)},
		}}}})
}

// sessions returns sessions with a test key.
func sessions(t *testing.T) *secrets.Sessions {
	t.Helper()
	line, err := secrets.NewKeyLine("")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return secrets.NewSessions(keys, time.Now)
}

// once is a history with one sample of everything.
type once struct{}

func (once) Window(r history.Range) *history.Window {
	w := history.New(history.Config{}, nil, nil).Window(r)
	w.BMCErrors = []history.Line{w.Runs[0]}
	w.BMCErrors[0].Name, w.BMCErrors[0].Points = evil, slices.Clone(w.Runs[0].Points)
	lines := slices.Concat(w.Machines, w.Runs, w.BMCErrors, []history.Line{w.Heartbeats, w.Commands, w.P50, w.P99})
	for _, l := range lines {
		l.Points[len(l.Points)-1] = series.Point{Value: 3, Periods: 1}
	}
	return w
}

func (once) Taken() uint64 { return 1 }

// get requests a page with a token by its name, or "" for none.
func get(l *apitest.Lab, as, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	return do(l, as, r)
}

// post sends a form, like a page of the dashboard.
func post(l *apitest.Lab, as, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return do(l, as, r)
}

func do(l *apitest.Lab, as string, r *http.Request) *httptest.ResponseRecorder {
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+l.Secret(as))
	}
	w := httptest.NewRecorder()
	l.Handler.ServeHTTP(w, r)
	return w
}

// unbroken returns a page without the hints where its words may be broken.
func unbroken(page string) string {
	return regexp.MustCompile(`<wbr>|<span class="word">([^<]*)</span>`).ReplaceAllString(page, "$1")
}

// has checks that a page contains some texts and not others, wherever words may be broken.
func has(t *testing.T, w *httptest.ResponseRecorder, code int, want []string, not ...string) {
	t.Helper()
	if w.Code != code {
		t.Errorf("got status %d, want %d", w.Code, code)
	}
	page := unbroken(w.Body.String())
	for _, s := range want {
		if !strings.Contains(page, s) {
			t.Errorf("got no %q in the page:\n%s", s, page)
		}
	}
	for _, s := range not {
		if strings.Contains(page, s) {
			t.Errorf("got %q in the page", s)
		}
	}
}
