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
		"http://0251.0376.1.1/x.iso":              true,
		"http://2851995905/x.iso":                 true,
		"http://0xa9fea9fe/x.iso":                 true,
		"http://0xA9.254.0xa9fe/x.iso":            true,
		"http://169.254.169.254./x.iso":           true,
		"http://[64:ff9b::a9fe:a9fe]/x.iso":       true,
		"http://[64:ff9b::a01:203]/x.iso":         true,
		"http://[2002:a9fe:a9fe::]/x.iso":         true,
		"http://[::a9fe:a9fe]/x.iso":              true,
		"http://0x0a010204/x.iso":                 false,
		"http://4294967296/x.iso":                 false,
		"http://1.2.3.4.5/x.iso":                  false,
		"http://0o251.0376.1.1/":                  false,
		"http://256.1/x":                          false,
		"http://[64:ff9b::a01:204]/x.iso":         false,
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
