package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestBootRoutesAreAtOneAddress checks that with --netboot-addr, boot scripts and install sessions
// are served only there, and other routes are not.
func TestBootRoutesAreAtOneAddress(t *testing.T) {
	all := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	with, without := &netbootConfig{NetbootAddr: "127.0.0.1:7404"}, &netbootConfig{}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	machines, people, only := serve(machinesOnly(all)), serve(with.notMachines(all)), serve(without.notMachines(all))
	for _, tt := range []struct {
		path                   string
		machines, people, only int // status at --netboot-addr, at --http-addr beside it, and at --http-addr only
	}{
		{"/api/v1/boot?mac=52:54:00:12:34:56", 200, 404, 200},
		{"/api/v1/boot/", 200, 404, 200},
		{"/api/v1/install", 200, 404, 200},
		{"/api/v1/install/report", 200, 404, 200},
		{"/api/v1/install/log/", 200, 404, 200},
		{"/%61pi/v1/boot", 200, 404, 200},
		{"/images/debian/disk", 200, 200, 200},
		{"/netboot/ipxe.efi", 200, 200, 200},
		{"/healthz", 200, 200, 200},
		{"/api/v1/nodes", 404, 200, 200},
		{"/api/v1/bootstrap", 404, 200, 200},
		{"/ui/", 404, 200, 200},
	} {
		for _, at := range []struct {
			name, url string
			want      int
		}{{"--netboot-addr", machines, tt.machines}, {"--http-addr beside it", people, tt.people},
			{"--http-addr alone", only, tt.only}} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.url+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != at.want {
				t.Errorf("%s at %s: got %d, want %d", tt.path, at.name, resp.StatusCode, at.want)
			}
		}
	}
}
