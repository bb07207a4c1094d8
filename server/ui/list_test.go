package ui_test

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestLists checks the pages of lists: their entries without executable input, the command for
// an empty list, and who may open them.
func TestLists(t *testing.T) {
	l := lab(t)
	empty := map[string]string{
		"images": "holdfast image add", "installs": "holdfast run start", "secrets": "holdfast secret put bmc/r7",
		"webhooks": "holdfast webhook put chat", "services": "curl https://PEER",
	}
	for name, create := range empty {
		has(t, get(l, "admin", "/ui/"+name), 200, []string{"There are no ", "<code>" + create}, "<table")
	}
	l.Do(&internalv1.PutImage{Image: &holdfastv1.Image{Name: "debian-13", Description: evil,
		Disk: &holdfastv1.Image_File{Sha256: fmt.Sprintf("%064d", 1), SizeBytes: 5 << 20}}})
	l.Do(&internalv1.PutSecret{Secret: &internalv1.StoredSecret{
		Secret: &holdfastv1.Secret{Name: "bmc/r7", Type: "bmc", Keys: []string{"password"}, Version: 1, KeyId: "k1"},
		Sealed: &internalv1.Sealed{KeyId: "k1", Ciphertext: []byte("ciphertext of it")}}})
	l.Do(&internalv1.PutWebhook{Webhook: &holdfastv1.Webhook{Name: "chat",
		Url: "https://hooks.example/" + url.PathEscape(evil)}})
	for name, tt := range map[string]struct {
		want []string
		open bool // to viewers
	}{
		"images":   {[]string{`id="e-debian-13"`, `data-label="Files">disk 5 MiB`, "&lt;script&gt;", "1 image<"}, true},
		"installs": {[]string{"There are no install sessions"}, true},
		"services": {[]string{"There are no services"}, true},
		"tokens":   {[]string{`id="e-tok-viewer"`, "viewer", "never", "10 tokens<"}, false},
		"sessions": {[]string{"There are no sessions", "<code>holdfast login"}, true},
		"secrets":  {[]string{"bmc/r7", "password", "1 secret<"}, false},
		"webhooks": {[]string{"chat", "all events", "1 webhook<"}, false},
		"audit":    {[]string{"hash chain"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			not := []string{evil, "ciphertext", l.Secret("viewer"), "style=", "ZgotmplZ", "%!"}
			has(t, get(l, "admin", "/ui/"+name), 200, append(tt.want, `aria-current="page"`), not...)
			code := 403
			if tt.open {
				code = 200
			}
			has(t, get(l, "viewer", "/ui/"+name), code, []string{`href="/ui/machines"`})
			has(t, get(l, "service", "/ui/"+name), 403, nil)
			has(t, get(l, "", "/ui/"+name), 401, []string{"Sign in"})
		})
	}
	has(t, get(l, "admin", "/ui/tokens?filter="+url.QueryEscape(`name = "nobody"`)), 200,
		[]string{"No tokens match the filter", `href="?"`}, "<code>holdfast token create")
}

// TestListPages checks the totals and the links of a list with several pages.
func TestListPages(t *testing.T) {
	l := lab(t)
	for i := range 240 {
		l.Do(&internalv1.CreateToken{Token: &internalv1.StoredToken{Sha256: fmt.Appendf(nil, "%032d", i),
			Token: &holdfastv1.Token{TokenId: fmt.Sprintf("x-%03d", i), Name: "x", Role: holdfastv1.Role_VIEWER}}})
	}
	path, seen := "/ui/tokens", 0
	for _, want := range []string{"1 to 100 of 250 tokens", "101 to 200 of 250 tokens", "201 to 250 of 250 tokens"} {
		w := get(l, "admin", path)
		has(t, w, 200, []string{want})
		seen++
		path = nextPage(w.Body.String())
	}
	if path != "" {
		t.Errorf("got another page %s after %d", path, seen)
	}
	has(t, get(l, "admin", "/ui/tokens?from=-5"), 200, []string{"1 to 100 of 250 tokens"})
}

// nextPage returns the link to the next page of a list, or "".
func nextPage(page string) string {
	_, link, ok := strings.Cut(page, `First page</a>`)
	if !ok {
		_, link, ok = strings.Cut(page, `<nav class="pager"`)
	}
	_, link, found := strings.Cut(link, `href="`)
	if !ok || !found || !strings.Contains(page, `rel="next"`) {
		return ""
	}
	link, _, _ = strings.Cut(link, `"`)
	return html.UnescapeString(link)
}
