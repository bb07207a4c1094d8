package lex

import (
	"net/url"
	"strings"
	"testing"
)

var urls = map[string]bool{
	"https://e.example":                     true,
	"HTTPS://E.example:8443/a%20b?c=100%#d": true,
	"http://10.0.0.1:8080/":                 true,
	"http://[::1]:80/x":                     true,
	"http://[2001:db8::1]":                  true,
	"http://bücher.example/ü":               true,
	"nfs://files.example/rescue.iso":        true,
	"https://e.example?x=a/b@c":             true,
	"https://joe:secret@e.example":          true,
	"http://0x7f.example/":                  true,
	"http://10.example":                     true,
	"http://2130706433/":                    false,
	"http://0x7f000001/":                    false,
	"http://0177.0.0.1:80/":                 false,
	"http://127.1":                          false,
	"http://10.0.0.0X1/x":                   false,
	"http://256.1.1.1":                      false,
	"http://10.0.0.1./":                     false,
	"http://e.example:":                     true,
	"":                                      false,
	"e.example":                             false,
	"https:e.example":                       false,
	"://e.example":                          false,
	"1s://e.example":                        false,
	"https://":                              false,
	"https:///x":                            false,
	"https://:80":                           false,
	"https://e.example:x":                   false,
	"https://e.example:65536":               false,
	"https://e.example/a b":                 false,
	"https://e.example/%2":                  false,
	"https://e.example/#%zz":                false,
	"https://e.example/\n":                  false,
	"https://e.example/\x7f":                false,
	"https://e.example/\xff":                false,
	"https://e example":                     false,
	"https://e<.example":                    false,
	"https://%65.example":                   false,
	"http://[::1":                           false,
	"http://::1]":                           false,
	"http://[::1]x":                         false,
	"http://[10.0.0.1]":                     false,
	"http://[fe80::1%25eth0]":               false,
	"http://[::1]x:80":                      false,
	"https://joe:pa/ss@e.example":           false,
	"http://a.example:80:80":                false,
}

func TestURL(t *testing.T) {
	for s, want := range urls {
		if _, got := ParseURL(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
	u, _ := ParseURL("HTTPS://joe@e.example#x")
	if want := (URL{Scheme: "https", User: true, Fragment: true}); u != want {
		t.Errorf("got %+v, want %+v", u, want)
	}
}

// FuzzURL compares ParseURL with the parsers of programs that open URLs.
func FuzzURL(f *testing.F) {
	for s := range urls {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseURL(s)
		if !ok || got.User { // URLs with a user are never opened
			return
		}
		u, err := url.Parse(s)
		switch {
		case err != nil:
			t.Fatalf("%q is taken, and nobody can open it: %v", s, err)
		case u.Scheme != got.Scheme || u.Host == "" || u.Hostname() == "" || u.User != nil ||
			(u.Fragment != "") != got.Fragment:
			t.Fatalf("%q is read as %+v, and by others as %+v", s, got, u)
		}
	})
}

func TestLower(t *testing.T) {
	for _, s := range []string{"", "aBc-9", "ÄÖ Z", "\xffA"} {
		want := strings.NewReplacer("B", "b", "Z", "z", "A", "a").Replace(s)
		if got := Lower(strings.ToValidUTF8(s, "?")); got != strings.ToValidUTF8(want, "?") {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
