package egress

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	p, err := New(append(Default(), "10.1.2.3", "fd00:ec2::/32"))
	if err != nil {
		t.Fatal(err)
	}
	for url, denied := range map[string]bool{
		"http://169.254.169.254/latest/meta-data": true,
		"http://[fe80::1%25eth0]/x":               true,
		"http://[::ffff:169.254.169.254]/":        true,
		"https://10.1.2.3:8443/x.iso":             true,
		"http://[fd00:ec2::254]/":                 true,
		"https://10.1.2.4/x.iso":                  false,
		"nfs://10.9.0.1/iso/x.iso":                false,
		"http://metadata.example/":                false,
		"http://127.0.0.1:8080/":                  false,
		"::":                                      false,
	} {
		if err := p.CheckURL(url); (err != nil) != denied {
			t.Errorf("%s: got %v, want denied %t", url, err, denied)
		}
	}
}

func TestTransport(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for _, tt := range []struct {
		name     string
		networks []string
		denied   bool
	}{
		{"default", Default(), false},
		{"its network", []string{"127.0.0.0/8"}, true},
		{"none", []string{"none"}, false},
	} {
		p, err := New(tt.networks)
		if err != nil {
			t.Fatal(err)
		}
		tr := p.Transport()
		resp, err := (&http.Client{Transport: tr}).Get(s.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		tr.CloseIdleConnections()
		if tt.denied != (err != nil && strings.Contains(err.Error(), "--deny-urls")) || !tt.denied && err != nil {
			t.Errorf("%s: got %v, want denied %t", tt.name, err, tt.denied)
		}
	}
	if _, err := New([]string{"nonsense"}); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("invalid network: got %v", err)
	}
}
